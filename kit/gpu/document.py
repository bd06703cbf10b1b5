"""`kit.gpus/1`, the JSON of a snapshot and its findings: written for programs, read back from a dump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kit.errors import MissingError, UsageError
from kit.gpu.findings import Finding
from kit.gpu.snapshot import SCHEMA, Snapshot
from kit.parse import json_of


def as_document(snapshot: Snapshot, findings: Sequence[Finding]) -> dict[str, Any]:
    """The contract's form; `gaps`, `nvml`, `kernel_module`, `pci_bus_ids`, `xids` and more are additions to it."""
    return {"schema": SCHEMA, **asdict(snapshot), "findings": [asdict(finding) for finding in findings]}


def from_document(document: Any) -> Snapshot:
    """The snapshot in a document. Raises UsageError when it is no `kit.gpus/1` or one with impossible values."""
    from pydantic import TypeAdapter, ValidationError

    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(f"this is no {SCHEMA} document", hint="make one with: kit probe --json > gpus.json")
    fields = {key: value for key, value in document.items() if key not in ("schema", "findings")}
    try:
        return TypeAdapter(Snapshot).validate_python(fields)
    except ValidationError as error:
        evidence = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5]]
        raise UsageError(f"this {SCHEMA} document has impossible values", evidence=evidence) from None


def read_document(path: Path) -> Snapshot:
    """The snapshot in a file. Raises MissingError when it cannot be read, UsageError when it is no such document."""
    try:
        return from_document(json_of(path.read_text()))
    except OSError as error:
        raise MissingError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from None
