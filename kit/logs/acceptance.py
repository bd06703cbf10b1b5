"""Judges the drafter by the SpecDecoding lines that the server prints every ten seconds or so."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kit.logs.model import Line

# Below these an EAGLE or MTP drafter costs more than it saves, or is wrong (measured: a wrong drafter is
# accepted in under 1 %, wrong auxiliary layers leave only a part of the first position).
FIRST_POSITION_FLOOR = 0.25
RATE_FLOOR = 0.10
# drafters that guess from the text alone are allowed to be wrong most of the time
GUESSING_RATE_FLOOR = 0.01
ENOUGH_DRAFTED = 300
DECAY_POINTS = 4
DECAY_ENOUGH = 400
DECAY_LEFT = 0.6
DECAY_TAU = -0.6

_LENGTH = re.compile(r"Mean acceptance length: ([\d.]+)")
_ACCEPTED = re.compile(r"Accepted: (\d+) tokens")
_DRAFTED = re.compile(r"Drafted: (\d+) tokens")
_POSITIONS = re.compile(r"Per-position acceptance rate: ([\d., ]+)")
_MOST = 512


@dataclass(frozen=True, slots=True)
class Sample:
    """One SpecDecoding line: its number, text and counts (tokens)."""

    line: int
    text: str
    length: float
    accepted: int
    drafted: int
    first: float | None


@dataclass(slots=True)
class Acceptance:
    """The samples of one run, thinned evenly once there are too many, so that memory stays constant."""

    samples: list[Sample] = field(default_factory=list)
    _every: int = 1
    _seen: int = 0
    last: Sample | None = None

    def add(self, line: Line) -> None:
        """Take one SpecDecoding line."""
        sample = parse(line)
        if sample is None or sample.drafted == 0:
            return
        self.last = sample
        self._seen += 1
        if self._seen % self._every == 0:
            self.samples.append(sample)
        if len(self.samples) > _MOST:
            self.samples = self.samples[::2]
            self._every *= 2

    def thin(self) -> None:
        """Keep every eighth sample: enough to judge a run that is over."""
        if len(self.samples) > _MOST // 8:
            self.samples = self.samples[::8]

    def judge(self, *, guessing: bool = False) -> tuple[Sample, str] | None:
        """The line that shows too low or falling acceptance and what is wrong, or None.

        `guessing`: the drafter is n-gram or suffix lookup, which a low rate does not condemn.
        """
        points = self.samples if self.last in self.samples or self.last is None else [*self.samples, self.last]
        drafted = sum(p.drafted for p in points)
        if drafted < ENOUGH_DRAFTED:
            return None
        rate = sum(p.accepted for p in points) / drafted
        firsts = [(p.first, p.drafted) for p in points if p.first is not None]
        first = sum(f * d for f, d in firsts) / sum(d for _, d in firsts) if firsts else None
        if guessing:
            if rate < GUESSING_RATE_FLOOR:
                return points[0], f"{rate:.1%} of {drafted} draft tokens were accepted"
            return None
        if rate < RATE_FLOOR or (first is not None and first < FIRST_POSITION_FLOOR):
            return points[0], f"{rate:.1%} of {drafted} draft tokens were accepted"
        return _decay([p for p in points if p.drafted >= DECAY_ENOUGH])


def _decay(points: list[Sample]) -> tuple[Sample, str] | None:
    if len(points) < DECAY_POINTS:
        return None
    gains = [p.length - 1 for p in points]
    third = max(1, len(gains) // 3)
    before, after = sum(gains[:third]) / third, sum(gains[-third:]) / third
    if before <= 0 or after / before > DECAY_LEFT or _tau(gains) > DECAY_TAU:
        return None
    return points[-1], f"the mean acceptance length fell from {1 + before:.2f} to {1 + after:.2f}"


def _tau(values: list[float]) -> float:
    """Kendall's rank correlation of the values with their order: -1 when each is below the one before."""
    if len(values) > 128:
        step = len(values) / 128
        values = [values[int(i * step)] for i in range(128)]
    pairs = [(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]
    return sum((b > a) - (b < a) for a, b in pairs) / len(pairs)


def parse(line: Line) -> Sample | None:
    """The counts of one SpecDecoding line, or None when it is not whole."""
    text = line.text
    length, accepted, drafted = _LENGTH.search(text), _ACCEPTED.search(text), _DRAFTED.search(text)
    if not (length and accepted and drafted):
        return None
    first = None
    if positions := _POSITIONS.search(text):
        try:
            first = float(positions[1].split(",")[0])
        except ValueError:
            first = None
    return Sample(line.number, text[:600], float(length[1]), int(accepted[1]), int(drafted[1]), first)
