"""A start as JSON lines (`kit.event/1`): for `kit up --events`, and into the run folder for the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from kit.watch.model import Change
from kit.watch.session import Frame

SCHEMA = "kit.event/1"
RESOURCES_EVERY_S = 10.0


class Events:
    """Writes each change as a line; resource lines every ten seconds, judgements when they change."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._resources_at = 0.0
        self._judged = ""

    def changes(self, changes: Sequence[Change], frame: Frame) -> None:
        for change in changes:
            self._line(change.at, **of_change(change))
        if frame.sample is not None and frame.at - self._resources_at >= RESOURCES_EVERY_S:
            self._resources_at = frame.at
            self._line(frame.at, **of_resources(frame))
        found = frame.judgement
        if (
            found.verdict != "ok"
            and found.text
            and (key := f"{found.verdict} {found.sign and found.sign.id}") != self._judged
        ):
            self._judged = key
            sign = found.sign
            self._line(frame.at, event="judgement", verdict=found.verdict, sign=sign and sign.id, text=found.text,
                       quiet_s=round(found.quiet_s, 1), limit_s=found.limit_s)  # fmt: skip
        elif found.verdict == "ok":
            self._judged = ""

    def close(self, good: bool) -> None:
        """Nothing is held open."""

    def say(self, at: float, event: str, **fields: Any) -> None:
        """One more event: ready, failed, result."""
        self._line(at, event=event, **fields)

    def _line(self, at: float, **fields: Any) -> None:
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(json.dumps({"schema": SCHEMA, "at": round(at, 3), "time": time, **fields}, ensure_ascii=True))


def of_change(change: Change) -> dict[str, Any]:
    """The fields of a change's event."""
    who = change.process
    process = {"process": who.role, "rank": who.rank, "pid": who.pid} if who else {"process": None}
    if change.kind == "bar" and who is not None and who.bar is not None:
        bar = who.bar
        return {"event": "progress", "stage": change.name, **process, "label": bar.label, "done": bar.done,
                "total": bar.total, "left_s": bar.left_s, "per_s": bar.per_s}  # fmt: skip
    if change.kind == "figure":
        return {"event": "figure", "name": change.name, "value": change.value, **process}
    if change.kind == "run":
        return {"event": "run", "number": int(change.value or 0)}
    return {"event": "stage", "stage": change.name, **process}


def of_resources(frame: Frame) -> dict[str, Any]:
    """The fields of a resource event; what cannot be seen is null."""
    sample, used = frame.sample, frame.usage
    assert sample is not None
    return {
        "event": "resources",
        "gpus": [
            {"index": g.index, "used_mib": g.used_mib, "total_mib": g.total_mib, "busy": g.busy} for g in sample.gpus
        ],
        "read_bytes_per_s": used and used.read_rate and round(used.read_rate),
        "read_by": "machine" if sample.whole_machine else "engine",
        "cpu": used and used.cpu_rate and round(used.cpu_rate, 2),
        "processes": None if sample.processes is None else len(sample.processes),
    }
