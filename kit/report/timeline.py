"""The geometry of the timeline: which bars stand where, in the units of an SVG; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kit.report.inputs import ProcessIn, RootIn, SpanIn, StagesIn
from kit.watch.patterns import patterns
from kit.watch.words import duration

WIDTH = 960
LABEL = 150
ROW = 26
TOP = 8
MOST_WORKERS = 16
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
_ROLES = {"api_server": "API server", "engine_core": "engine core", "worker": "worker"}


@dataclass(frozen=True)
class Bar:
    """A stage of a row: left edge and width, its stage, the text inside (empty where it does not fit), and the
    sentence that a pointer or a screen reader gets."""

    x: float
    width: float
    stage: str
    text: str
    told: str


@dataclass(frozen=True)
class Row:
    """One process: its label, top edge and bars, and whether it is the one that failed first."""

    label: str
    y: int
    bars: tuple[Bar, ...]
    failed: bool = False


@dataclass(frozen=True)
class Timeline:
    """All rows, the ticks as (x, text), the mark at which it was ready or died as (x, text, good), `left_out` rows."""

    height: int
    rows: tuple[Row, ...]
    ticks: tuple[tuple[float, str], ...]
    mark: tuple[float, str, bool] | None
    left_out: int


def timeline(stages: StagesIn, root: RootIn | None = None) -> Timeline | None:
    """Lay out a start; None when there is nothing to show. `root` marks the row that failed first."""
    end = max([stages.ended_s, *(s.end or s.start for s in stages.spans)], default=0.0)
    if stages.ready_s is not None:
        end = min(end, stages.ready_s) or end
    if not stages.spans or end <= 0:
        return None
    begun = [p for p in stages.processes if p.spans]
    workers = sorted((p for p in begun if p.role == "worker"), key=lambda p: (p.rank is None, p.rank or 0))
    others = sorted((p for p in begun if p.role != "worker"), key=lambda p: p.role)
    shown = [*others, *workers[:MOST_WORKERS]]
    rows = [_row("whole start", 0, stages.spans, end)]
    for number, process in enumerate(shown, 1):
        row = _row(_label(process), number, process.spans, end)
        rows.append(replace(row, failed=root is not None and _is(process, root)))
    ready = stages.ready_s is not None
    mark = (_x(end, end), f"{'ready' if ready else 'ended'} after {duration(end)}", ready)
    return Timeline(
        TOP + len(rows) * ROW + 40, tuple(rows), tuple(_ticks(end)), mark, len(workers) - len(workers[:MOST_WORKERS])
    )


def _is(process: ProcessIn, root: RootIn) -> bool:
    same = root.pid == process.pid if root.pid is not None else root.rank is not None and root.rank == process.rank
    return process.role == root.process and same


def _label(process: ProcessIn) -> str:
    name = _ROLES.get(process.role, process.role)
    return f"{name} {process.rank}" if process.role == "worker" and process.rank is not None else name


def _row(label: str, number: int, spans: Sequence[SpanIn], end: float) -> Row:
    bars = []
    for span in spans:
        start, until = min(span.start, end), min(span.end if span.end is not None else end, end)
        width = max(_x(until, end) - _x(start, end), 1.5)
        stage = patterns().stages.get(span.stage)
        if span.stage in ("serving", "shutdown") or stage is None:
            continue
        took = duration(until - start)
        text = stage.title if width > 7.2 * len(stage.title) + 8 else ""
        told = f"{label}: {stage.title}, {took}, from {duration(start)}"
        bars.append(Bar(round(_x(start, end), 1), round(width, 1), span.stage, text, told))
    return Row(label, TOP + number * ROW, tuple(bars))


def _x(at: float, end: float) -> float:
    return LABEL + (WIDTH - LABEL - 12) * at / end


def _ticks(end: float) -> list[tuple[float, str]]:
    step = next((s for s in _STEPS if end / s <= 8), _STEPS[-1])
    ticks = [(round(_x(at, end), 1), duration(at)) for at in range(0, int(end) + 1, step)]
    return [tick for tick in ticks if tick[0] < WIDTH - 40]
