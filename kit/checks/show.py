"""Results of `kit doctor` for people, and the generated page of all checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kit.checks.base import FAMILIES, Check
from kit.checks.registry import checks
from kit.checks.run import Result, verdict
from kit.cli.out import clean

if TYPE_CHECKING:
    from kit.advice import Advice

COLOURS = {"pass": "32", "warn": "33", "fail": "1;31", "skip": "2"}  # SGR codes: green, yellow, bold red, dim
WIDTH = max(len(status) for status in COLOURS)


def lines(results: Sequence[Result], *, skipped: bool, colour: bool) -> Iterator[str]:
    """One line for each check, and below a fault what is wanted and the fix; skipped ones only if asked."""
    name_width = max((len(result.check.id) for result in results), default=0)
    for result in results:
        answer = result.answer
        if answer.status == "skip" and not skipped:
            continue
        status = f"{answer.status:{WIDTH}}"
        if colour:
            status = f"\x1b[{COLOURS[answer.status]}m{status}\x1b[0m"
        yield f"{status}  {result.check.id:{name_width}}  {clean(answer.found)}"
        if answer.status in ("warn", "fail"):
            for word, text in (("want", answer.want), ("fix", answer.fix)):
                if text:
                    yield f"{'':{WIDTH}}  {word:>{name_width}}  {clean(text)}"


def summary(results: Sequence[Result]) -> str:
    """`fail: 2 failed, 1 warning, 20 passed, 3 skipped`."""
    counted = {status: sum(1 for r in results if r.answer.status == status) for status in COLOURS}
    warnings = f"{counted['warn']} warning{'' if counted['warn'] == 1 else 's'}"
    return (
        f"{verdict(results)}: {counted['fail']} failed, {warnings}, {counted['pass']} passed, {counted['skip']} skipped"
    )


def advice_lines(advice: Advice, present: dict[str, str]) -> list[str]:
    """Advice that is not in kit.yaml yet, as lines to paste there, then the notes."""
    new = {name: value for name, value in advice.env.items() if present.get(name) != value}
    lines = []
    if new:
        lines += ["for this box, in kit.yaml (or: kit doctor --accept):", "  engine:", "    env:"]
        lines += [f'      {name}: "{value}"    # {advice.why[name]}' for name, value in new.items()]
    if advice.cpus:
        lines.append(f"CPUs nearest to these cards: {advice.cpus} (with --accept the launch script keeps to them)")
    return lines + [f"note: {note}" for note in advice.notes]


def reference_page() -> str:
    """docs/checks.md, from the registry."""
    lines = [
        "# Checks of `kit doctor`",
        "",
        "Generated from `kit/checks/`; `make docs` writes it anew. `kit doctor --select FAMILY` or `--ignore ID`",
        "chooses; a check whose requirement failed is skipped. What could not be seen is a warning, never a pass.",
    ]
    for family, what in FAMILIES.items():
        members = [kind for kind in checks().values() if kind.family() == family]
        if members:
            lines += ["", f"## {family}: {what}"]
            lines += [line for kind in members for line in _entry(kind)]
    return "\n".join(lines) + "\n"


def _entry(kind: type[Check]) -> list[str]:
    lines = ["", f"### `{kind.id}`: {kind.title}", "", kind.text(), ""]
    facts = [f"otherwise {kind.severity}"]
    if kind.requires:
        facts.append(f"needs {', '.join(f'`{name}`' for name in kind.requires)}")
    lines.append(f"- {'; '.join(facts)}")
    if kind.fix:
        lines.append(f"- fix: {kind.fix}")
    return lines
