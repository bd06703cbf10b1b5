"""Takes secrets, names and addresses out of text, and keeps a list of what was taken and where; pure.

The list never holds what was taken. Equal values get equal numbers within one bundle, so that relations stay
visible: `[address-1]` is one machine in every file.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kit.errors import UsageError

HOME = Path(__file__).with_name("redactions.toml")
SHORTEST_SECRET = 4  # a shorter literal would be found in every other word


@dataclass(frozen=True)
class Rule:
    """One kind of text that is replaced; see redactions.toml for the fields."""

    id: str
    word: str
    pattern: re.Pattern[str]
    plain: bool = False
    example: str = ""
    shown: str = ""


@dataclass(frozen=True)
class Redaction:
    """What was replaced: by which rule, in which file and line, with which word, how often in that line."""

    rule: str
    file: str
    line: int
    instead: str
    count: int


@functools.cache
def rules() -> tuple[Rule, ...]:
    """The rules of redactions.toml."""
    items = tomllib.loads(HOME.read_text())["rule"]
    return tuple(
        Rule(i["id"], i["as"], re.compile(i["pattern"]), i.get("plain", False), i["example"], i["shown"]) for i in items
    )


def literal(rule: str, word: str, texts: Iterable[str], *, whole: bool) -> list[Rule]:
    """Rules for texts known beforehand: this machine's keys (anywhere), its user and host names (`whole` words)."""
    found = []
    for text in sorted({t for t in texts if len(t) >= (2 if whole else SHORTEST_SECRET)}, key=len, reverse=True):
        shape = rf"(?<![\w-]){re.escape(text)}(?![\w-])" if whole else re.escape(text)
        found.append(Rule(rule, word, re.compile(shape), plain=not whole))
    return found


def further(patterns: Sequence[str]) -> list[Rule]:
    """Rules that a person gave as regular expressions. Raises UsageError for one that is none."""
    found = []
    for number, pattern in enumerate(patterns, 1):
        try:
            found.append(Rule(f"further-{number}", "redacted", re.compile(pattern)))
        except re.error as error:
            raise UsageError(
                f"--redact {pattern}: {error}", hint="--redact takes a Python regular expression"
            ) from None
    return found


@dataclass
class Redactor:
    """Replaces in any number of texts with one numbering; `done` lists what was replaced."""

    rules: Sequence[Rule]
    done: list[Redaction] = field(default_factory=list)
    _numbers: dict[str, dict[str, int]] = field(default_factory=dict)

    def text(self, text: str, file: str) -> str:
        """`text` without what the rules find; where it was is noted under the name `file`."""
        for rule in self.rules:
            text = self._apply(rule, text, file)
        return text

    def _apply(self, rule: Rule, text: str, file: str) -> str:
        counts: dict[tuple[int, str], int] = {}
        line, at = 1, 0

        def replaced(match: re.Match[str]) -> str:
            nonlocal line, at
            group = "value" if "value" in rule.pattern.groupindex else 0
            value = match[group]
            if not value or (value.startswith("[") and value.endswith("]")):  # nothing, or redacted already
                return match[0]
            line, at = line + text.count("\n", at, match.start(group)), match.start(group)
            instead = f"[{rule.word}]" if rule.plain else f"[{rule.word}-{self._number(rule.word, value)}]"
            counts[line, instead] = counts.get((line, instead), 0) + 1
            start, end = match.start(group) - match.start(), match.end(group) - match.start()
            return match[0][:start] + instead + match[0][end:]

        text_after = rule.pattern.sub(replaced, text)
        self.done += [Redaction(rule.id, file, number, word, count) for (number, word), count in counts.items()]
        return text_after

    def _number(self, word: str, value: str) -> int:
        known = self._numbers.setdefault(word, {})
        return known.setdefault(value.lower(), len(known) + 1)
