"""The screen of a running service: what it does now, from one look to the next; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kit.cli.out import clean
from kit.serve.gauges import Gauges
from kit.serve.show import rows
from kit.serve.status import Status

KEEP = 120
_SPARKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Rates:
    """What happened between two looks. Tokens and requests a second; acceptance as accepted tokens a draft token
    and mean acceptance length; seconds to the first token and between tokens. None: nothing happened or unknown."""

    seconds: float
    tokens: float
    requests: float
    acceptance: float | None
    length: float | None
    first_token_s: float | None
    between_s: float | None


class History:
    """Looks at a service in order; keeps the rates between them."""

    def __init__(self) -> None:
        self._last: tuple[float, Status] | None = None
        self.rates: deque[Rates] = deque(maxlen=KEEP)

    def look(self, at: float, now: Status) -> Rates | None:
        """Add a look at `at` seconds; returns the rates since the one before, None where there are none."""
        before, self._last = self._last, (at, now)
        if before is None or before[1].counted is None or now.counted is None or at <= before[0]:
            return None
        counted = now.counted.since(before[1].counted)
        if counted.generated_tokens < 0 or counted.drafts < 0:  # the engine was restarted in between
            return None
        seconds = at - before[0]
        old, new = before[1].gauges, now.gauges
        found = Rates(
            seconds,
            counted.generated_tokens / seconds,
            counted.requests / seconds,
            counted.acceptance_rate if counted.draft_tokens else None,
            counted.mean_acceptance_length if counted.drafts else None,
            _mean(old, new, "first_token_s", "first_tokens"),
            _mean(old, new, "between_s", "betweens"),
        )
        self.rates.append(found)
        return found


def _mean(before: Gauges | None, now: Gauges | None, total: str, events: str) -> float | None:
    """The mean of the events between two readings of their sum and number; None when there was none."""
    ends = [getattr(reading, name) for name in (total, events) for reading in (before, now)]
    if None in ends:
        return None
    sum_before, sum_now, count_before, count_now = ends
    return float((sum_now - sum_before) / (count_now - count_before)) if count_now > count_before else None


def told(rates: Rates | None) -> list[tuple[str, str]]:
    """The rates as rows of name and value."""
    if rates is None:
        return []
    found = [("output", f"{rates.tokens:.1f} tokens/s, {rates.requests:.2f} requests/s")]
    if rates.acceptance is not None and rates.length is not None:
        found.append(("accepting", f"{rates.acceptance:.1%} of draft tokens, mean length {rates.length:.2f}"))
    if rates.first_token_s is not None:
        found.append(("first token", f"{rates.first_token_s * 1000:.0f} ms"))
    if rates.between_s is not None:
        found.append(("next tokens", f"{rates.between_s * 1000:.1f} ms each"))
    return found


def sparkline(values: Sequence[float | None], top: float, width: int = 60) -> str:
    """The newest values as small bars; a gap where there was none."""
    shown = list(values)[-width:]
    return "".join(" " if v is None else _SPARKS[min(7, max(0, int(v / top * 8)))] for v in shown)


def screen(name: str, now: Status, history: History, rates: Rates | None, used: str) -> RenderableType:
    """The whole screen. `used`: GPU, disk and CPU in words, empty when they cannot be seen."""
    table = Table.grid(padding=(0, 2))
    style = {"ready": "bold green", "not-ready": "bold yellow"}.get(now.verdict, "bold red")
    for number, (key, value) in enumerate([*rows(now), *told(rates)]):
        table.add_row(Text(key, style="dim"), Text(clean(value), style=style if number == 0 else ""))
    parts: list[RenderableType] = [Text(name, style="bold"), table]
    lengths = [r.length for r in history.rates]
    if any(lengths):
        top = max(length for length in lengths if length is not None)
        parts.append(Text(f"acceptance length  {sparkline(lengths, top)}  up to {top:.2f}", style="cyan"))
    tokens = [r.tokens for r in history.rates]
    if any(tokens):
        parts.append(
            Text(f"tokens/s           {sparkline(tokens, max(tokens))}  up to {max(tokens):.0f}", style="cyan")
        )
    if used:
        parts.append(Text(used, style="dim"))
    parts += [Text(f"warning: {clean(text)}", style="bold yellow") for text in now.warnings]
    return Group(*parts)


def line(now: Status, rates: Rates | None) -> str:
    """One look as one line, for pipes."""
    parts = [now.verdict + (f" ({now.why})" if now.why else "")]
    parts += [f"{key} {value}" for key, value in told(rates)]
    if now.gauges and now.gauges.kv_use is not None:
        parts.append(f"KV cache {now.gauges.kv_use:.1%}")
    parts += [f"warning: {text}" for text in now.warnings]
    return "; ".join(parts)
