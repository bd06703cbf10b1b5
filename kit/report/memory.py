"""The memory plan held against what vLLM said it took; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kit.plan.plan import Plan

GIB = 1 << 30
CLOSE = 0.1  # a plan within a tenth of what was found is a good plan


@dataclass(frozen=True)
class Row:
    """One quantity: as planned and as found, in words; `off` is the difference in per cent of the plan (None: one of
    the two is not known)."""

    name: str
    planned: str
    found: str
    off: float | None

    @property
    def close(self) -> bool:
        return self.off is None or abs(self.off) <= CLOSE * 100


def rows(plan: Plan | None, figures: Mapping[str, float | str]) -> Iterator[Row]:
    """Weights, KV cache and graphs of one rank. Quantities that neither side knows are left out."""
    graphs = [a.nbytes for a in plan.allowances if "graph" in a.name.lower()] if plan else []
    on_card = plan is not None and plan.setup.card is not None
    yield from _row("weights on each rank", plan.weights / GIB if plan else None, figures.get("model_gib"), "GiB")
    yield from _row("KV cache on each rank", plan.kv_memory / GIB if plan else None, figures.get("kv_gib"), "GiB")
    yield from _row("CUDA graphs", sum(graphs) / GIB if graphs and on_card else None, figures.get("graphs_gib"), "GiB")
    yield from _row("tokens in the KV cache", plan.tokens if plan else None, figures.get("kv_tokens"), "")
    yield from _row("full-length requests at once", plan.concurrency if plan else None, figures.get("concurrency"), "")


def _row(name: str, planned: float | None, found: float | str | None, unit: str) -> Iterator[Row]:
    value = found if isinstance(found, float | int) else None
    if value is None and planned is None:
        return
    off = (value - planned) / planned * 100 if planned and value is not None else None
    yield Row(name, _text(planned, unit), _text(value, unit), off)


def _text(value: float | None, unit: str) -> str:
    if value is None:
        return "not known"
    number = f"{value:,.0f}" if value >= 1000 else f"{value:,.2f}"
    return f"{number} {unit}".strip()
