"""The other drawings: acceptance by position, and what was used over time; geometry only, pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kit.report.inputs import ResourcesIn, SmokeIn
from kit.watch.words import duration, gib, rate

WIDTH = 960
HEIGHT = 90
_POSITION = re.compile(r"acceptance at position (\d+)")


@dataclass(frozen=True)
class Position:
    """One draft position: the rate found, what its gate wants and what is expected (None: nothing); 0 to 1."""

    number: int
    found: float
    gate: float | None
    expected: float | None

    @property
    def good(self) -> bool:
        return self.gate is None or self.found >= self.gate


def positions(smoke: SmokeIn) -> list[Position]:
    """The acceptance of each position against its gate and the expectation."""
    gates = {}
    for gate in smoke.gates:
        match, number = _POSITION.fullmatch(gate.name), re.search(r"[\d.]+", gate.want)
        if match and number:
            gates[int(match[1])] = float(number[0])
    expected = smoke.expected
    wanted = [n / expected.num_drafts for n in expected.per_position] if expected and expected.num_drafts else []
    return [
        Position(i, found, gates.get(i), wanted[i - 1] if i <= len(wanted) else None)
        for i, found in enumerate(smoke.per_position, 1)
    ]


@dataclass(frozen=True)
class Curve:
    """A quantity over time: `points` is an SVG polyline over WIDTH x HEIGHT, `most` its highest value in words."""

    name: str
    points: str
    most: str
    last: str


def curves(samples: Sequence[ResourcesIn]) -> list[Curve]:
    """GPU memory, use of the busiest card, disk rate and CPU over a start; those that were seen."""
    if len(samples) < 3:
        return []
    found = []
    memory = [sum(g.used_mib for g in s.gpus) for s in samples]
    full = max((sum(g.total_mib for g in s.gpus) for s in samples), default=0)
    if full:
        found.append(_curve("GPU memory, all cards", samples, memory, full, gib))
        busy = [max((g.busy or 0 for g in s.gpus), default=0) for s in samples]
        found.append(_curve("use of the busiest card", samples, busy, 100, lambda v: f"{v:.0f} %"))
    reads = [s.read_bytes_per_s or 0.0 for s in samples]
    if any(reads):
        found.append(_curve("read from disk", samples, reads, max(reads), rate))
    cpu = [s.cpu or 0.0 for s in samples]
    if any(cpu):
        found.append(_curve("CPU", samples, cpu, max(cpu), lambda v: f"{v:.1f} cores"))
    return found


def _curve(name: str, samples: Sequence[ResourcesIn], values: Sequence[float], top: float, word: object) -> Curve:
    end = samples[-1].at or 1.0
    points = " ".join(
        f"{WIDTH * s.at / end:.1f},{HEIGHT - (HEIGHT - 6) * min(v / top, 1.0):.1f}"
        for s, v in zip(samples, values, strict=True)
    )
    assert callable(word)
    return Curve(name, points, f"at most {word(max(values))}", f"at the end {word(values[-1])} ({duration(end)})")
