"""The smoke report for people: figures, small bars per position, gates."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from kit.cli.out import clean
from kit.smoke.judge import SmokeResult

BAR = 24
MARKS = {"pass": ("ok", "green"), "fail": ("FAIL", "bold red"), "warn": ("warn", "yellow")}


def report(result: SmokeResult) -> RenderableType:
    """The whole report as something rich can print."""
    parts: list[RenderableType] = [_figures(result)]
    if result.num_speculative_tokens and result.counted.drafts:
        parts.append(_positions(result))
    parts.append(_gates(result))
    word, style = ("PASS", "bold green") if result.verdict == "pass" else ("FAIL", "bold red")
    parts.append(Text.assemble("smoke: ", (word, style)))
    return Group(*parts)


def show(result: SmokeResult, console: Console) -> None:
    """Print the report."""
    console.print(report(result))


def _figures(result: SmokeResult) -> RenderableType:
    counted = result.counted
    rows = [("requests", f"{result.requests}" + (f", {result.errors} failed" if result.errors else ""))]
    if result.num_speculative_tokens:
        rows += [
            ("drafts", f"{counted.drafts} of {result.num_speculative_tokens} tokens"),
            ("accepted", f"{counted.accepted_tokens} of {counted.draft_tokens} draft tokens"),
            ("acceptance rate", f"{counted.acceptance_rate:.1%}"),
            ("mean acceptance length", f"{counted.mean_acceptance_length:.2f}"),
        ]
    if result.ttft_s is not None:
        rows.append(("time to first token", f"{result.ttft_s * 1000:.0f} ms (median)"))
    if result.tokens_per_s is not None:
        rows.append(("output", f"{result.tokens_per_s:.1f} tokens/s (median, one request at a time)"))
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(name, value)
    return table


def _positions(result: SmokeResult) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for number, rate in enumerate(result.per_position(), 1):
        full = round(min(max(rate, 0.0), 1.0) * BAR)
        bar = Text("█" * full + "░" * (BAR - full), style="cyan")
        table.add_row(f"position {number}", bar, f"{rate:6.1%}")
    return table


def _gates(result: SmokeResult) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("gate", "want", "found", ""):
        table.add_column(column, overflow="fold")
    for gate in result.gates:
        word, style = MARKS[gate.status]
        table.add_row(gate.name, clean(gate.want), clean(gate.found), Text(word, style=style))
    return table
