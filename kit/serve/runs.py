"""One folder for each start: container.log, smoke.json, diagnosis.json, run.json. The newest is `latest`."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kit import files
from kit.config import Deployment

KEEP = 20


def new_run(deployment: Deployment) -> Path:
    """Make the folder of a new run, point `latest` at it, and drop runs beyond the newest KEEP."""
    base = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    try:
        deployment.runs.mkdir(parents=True, exist_ok=True)
        for number in range(1000):
            folder = deployment.runs / (base if number == 0 else f"{base}-{number}")
            if not folder.exists():
                folder.mkdir()
                break
        link = deployment.runs / ".latest.part"
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name)
        link.replace(deployment.runs / "latest")
    except OSError as error:
        raise files.no_write(deployment.runs, error) from None
    for old in sorted(p for p in deployment.runs.iterdir() if p.is_dir() and not p.is_symlink())[:-KEEP]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def latest_run(deployment: Deployment) -> Path | None:
    """The folder of the newest run, or None before the first."""
    link = deployment.runs / "latest"
    return link.resolve() if link.is_dir() else None


def latest_start(deployment: Deployment) -> Path | None:
    """The folder of the newest run that started a container (a smoke test alone does not), or None."""
    starts = [p for p in deployment.runs.glob("*/events.jsonl") if not p.parent.is_symlink()]
    return max((p.parent for p in starts), default=None)


def record(folder: Path, name: str, value: dict[str, Any]) -> None:
    """Write a result of a run as JSON."""
    files.write(folder / name, json.dumps(value, indent=2) + "\n")
