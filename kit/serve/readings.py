"""Readings of the drafting counters over hours: `kit status` and `kit watch` leave one now and then, and a falling
acceptance shows between them."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kit import files
from kit.errors import MissingError
from kit.logs.acceptance import Acceptance, Sample
from kit.parse import json_of
from kit.smoke.counters import Counters
from kit.watch.words import duration

EVERY_S = 60.0
KEEP = 3000
ENOUGH = 400  # draft tokens between two points
MOST = 12  # points that are judged
HORIZONS = (3, 12, None)  # hours: a fall is seen soon although the days before were good


@dataclass(frozen=True)
class Reading:
    """The counters at `time` (Unix seconds) of the container that started at `started`."""

    time: float
    started: str
    drafts: int
    draft_tokens: int
    accepted_tokens: int


def _reading(kept: Mapping[str, Any]) -> Reading:
    at = float(kept["time"])
    if not math.isfinite(at):
        raise ValueError("no time")
    counts = (int(kept[name]) for name in ("drafts", "draft_tokens", "accepted_tokens"))
    return Reading(at, str(kept["started"]), *counts)


def load(path: Path) -> list[Reading]:
    """All readings, oldest first; lines that are none are skipped."""
    found = []
    try:
        for line in path.read_text(errors="replace").splitlines():
            try:
                found.append(_reading(json_of(line)))
            except (ValueError, TypeError, KeyError, OverflowError):
                continue
    except OSError:
        return []
    return found


def note(path: Path, counted: Counters, started: str, now: float) -> list[Reading]:
    """Add a reading, unless the last one is too young; returns all that are kept. A folder that cannot be written is
    no reason to fail."""
    known = load(path)
    if known and known[-1].started == started and now - known[-1].time < EVERY_S:
        return known
    known = [*known, Reading(now, started, counted.drafts, counted.draft_tokens, counted.accepted_tokens)][-KEEP:]
    with contextlib.suppress(MissingError, OSError):
        files.write(path, "".join(json.dumps(asdict(reading)) + "\n" for reading in known))
    return known


def falling(known: Sequence[Reading], started: str) -> str | None:
    """What is wrong with the acceptance between the readings of one container: too low or falling, over the last hours
    or over all of its time; None if nothing."""
    own = [reading for reading in known if reading.started == started]
    for hours in HORIZONS:
        recent = own if hours is None else [r for r in own if r.time >= own[-1].time - hours * 3600]
        samples = _samples(recent)
        found = Acceptance(samples=samples, last=samples[-1] if samples else None).judge()
        if found:
            return f"{found[1]} in {duration(recent[-1].time - recent[0].time)}"
    return None


def _samples(readings: Sequence[Reading]) -> list[Sample]:
    """What was drafted and accepted between readings, in at most a dozen stretches of alike many draft tokens: single
    minutes say little."""
    if not readings:
        return []
    enough = max(ENOUGH, (readings[-1].draft_tokens - readings[0].draft_tokens) // MOST)
    samples = []
    last = readings[0]
    for reading in readings[1:]:
        drafts, drafted = reading.drafts - last.drafts, reading.draft_tokens - last.draft_tokens
        if drafted >= enough and drafts > 0:
            accepted = reading.accepted_tokens - last.accepted_tokens
            samples.append(Sample(0, "", 1 + accepted / drafts, accepted, drafted, None))
            last = reading
    return samples
