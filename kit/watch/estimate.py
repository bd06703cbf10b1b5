"""How long a start will still take: from its progress bar and from this deployment's former starts; pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.watch.model import Snapshot, Span
from kit.watch.patterns import patterns

RECENT = 5


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds left, as far as anything is known: of the present stage and until ready (None: unknown).

    `basis` says where that comes from; `overdue` that this stage lasts longer than it ever did.
    """

    stage_left_s: float | None
    ready_left_s: float | None
    basis: str
    overdue: bool = False


def durations(spans: Sequence[Span], end: float) -> dict[str, float]:
    """Seconds in each stage; a span that lasts ends at `end`."""
    total: dict[str, float] = {}
    for span in spans:
        total[span.stage] = total.get(span.stage, 0.0) + (span.end if span.end is not None else end) - span.start
    return total


def estimate(now: Snapshot, at: float, former: Sequence[Mapping[str, float]]) -> Estimate:
    """The estimate at `at` (seconds since the start). `former`: seconds in each stage of starts that got ready,
    the newest last."""
    recent = former[-RECENT:]
    spent = durations(now.spans, at).get(now.stage, 0.0)
    known = [run[now.stage] for run in recent if now.stage in run]
    from_bar = _bar_left(now, at)
    basis = []
    stage_left = None
    overdue = False
    if from_bar is not None:
        stage_left = from_bar
        basis.append("the progress bar")
    elif known:
        stage_left = max(0.0, statistics.median(known) - spent)
        overdue = spent > max(known) * 1.5 + 5
    if not recent:
        return Estimate(stage_left, None, ", ".join(basis) or "nothing yet: this is the first start here", overdue)
    basis.append(f"{len(recent)} former start" + ("s" if len(recent) > 1 else ""))
    order = {name: stage.order for name, stage in patterns().stages.items()}
    later = [name for name, stage in order.items() if order[now.stage] < stage < order["serving"]]
    rest = sum(statistics.median([run.get(name, 0.0) for run in recent]) for name in later)
    ready_left = None if overdue or stage_left is None else stage_left + rest
    return Estimate(stage_left, ready_left, ", ".join(basis), overdue)


def _bar_left(now: Snapshot, at: float) -> float | None:
    """What the bar says is left, counted on since it was drawn; None without a bar that knows."""
    if now.bar is None or now.bar.left_s is None or now.bar.done == 0 or now.bar.done >= now.bar.total:
        return None
    return max(0.0, now.bar.left_s - (at - now.bar_at))
