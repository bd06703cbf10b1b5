"""The record of a start's stages: written into its run folder, read back as experience for the next one."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kit.parse import json_of
from kit.serve.runs import record
from kit.watch.estimate import durations
from kit.watch.model import Snapshot

SCHEMA = "kit.stages/1"
NAME = "stages.json"


def as_document(now: Snapshot, end: float, *, ready: bool) -> dict[str, Any]:
    """`kit.stages/1`: the stages of a start and of each process; `end` is when watching ended, `ready` whether it
    answered by then. Times in seconds since the start, figures as the log gave them."""
    return {
        "schema": SCHEMA,
        "ready_s": round(end, 2) if ready else None,
        "ended_s": round(end, 2),
        "stage": now.stage,
        "seconds": {name: round(value, 2) for name, value in durations(now.spans, end).items()},
        "spans": [_span(s) for s in now.spans],
        "processes": [
            {"role": p.role, "rank": p.rank, "pid": p.pid, "stage": p.stage, "spans": [_span(s) for s in p.spans]}
            for p in now.processes
        ],
        "figures": now.figures,
        "bar": now.bar and asdict(now.bar),
        "errors": now.errors,
    }


def _span(span: Any) -> dict[str, Any]:
    end = None if span.end is None else round(span.end, 2)
    return {"stage": span.stage, "start": round(span.start, 2), "end": end}


def write(run: Path, now: Snapshot, end: float, *, ready: bool) -> None:
    """Put a start's stages into its run folder."""
    record(run, NAME, as_document(now, end, ready=ready))


def former(runs: Path, *, but: Path | None = None) -> list[dict[str, float]]:
    """Seconds in each stage of the starts that got ready, oldest first; files that are no such record are skipped."""
    found = []
    for folder in sorted(p for p in runs.iterdir() if p.is_dir() and not p.is_symlink()) if runs.is_dir() else []:
        if folder == but:
            continue
        try:
            value = json_of((folder / NAME).read_text())
            if value["schema"] == SCHEMA and value["ready_s"] is not None:
                seconds = {str(name): float(took) for name, took in value["seconds"].items()}
                if all(map(math.isfinite, seconds.values())):
                    found.append(seconds)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return found
