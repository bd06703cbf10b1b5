"""Rules: data that give a failure its name, its meaning and its remedies.

A rule says what text it knows (`match`), in what company (`frames`, `stage`, `context`), and what it
means. Patterns are plain text in which `*` stands for any characters; they are easy to write and
need no compiling. The files lie in `rules/`, one per family; an operator may add a file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.errors import MissingError, UsageError
from kit.logs.model import CATEGORIES, ROLES, STAGES

HOME = Path(__file__).with_name("rules")


@dataclass(frozen=True, slots=True)
class Rule:
    """One log signature.

    `match`: any of these patterns in the failure's text. `all`: every one of these, anywhere in the text or
    the frames. `frames`: any of these in the "file function" lines of the traceback; `inner`: in its last five.
    `context`: any of these among the notable lines of the run. `absent`: none of these in the text. `stage`: one of
    these. `versions`: the releases of vLLM it is about (">=0.15,<0.18"), where the log names one. `explains`: patterns
    of a later failure that this line is the cause of (then the line may be an INFO). `process`: whose failure it
    counts as, where the line says otherwise. `rank`: 0 a decisive text, 1 a typical one, 2 a general one by type,
    place and stage.
    """

    id: str
    category: str
    cause: str
    remedy: tuple[str, ...]
    match: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    stage: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    versions: str | None = None
    process: str | None = None
    serverwide: bool = False
    rank: int = 1


def holds(pattern: str, text: str) -> bool:
    """Whether `text` holds `pattern`, in which `*` stands for any characters, line ends included."""
    if "*" not in pattern:
        return pattern in text
    at = 0
    for part in pattern.split("*"):
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _any(patterns: Sequence[str], text: str) -> bool:
    return any(holds(pattern, text) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Company:
    """What stands around a failure's text: frames (one "file function" a line), notable lines, stage, kind, release."""

    frames: str = ""
    context: str = ""
    stage: str = ""
    kind: str = ""
    version: str | None = None

    @property
    def inner(self) -> str:
        return "\n".join(self.frames.split("\n")[-5:])


def applies(rule: Rule, text: str, company: Company) -> bool:
    """Whether a rule knows this failure: its text, the frames that led to it, and its company."""
    return (
        (not rule.match or _any(rule.match, text))
        and (not rule.kind or company.kind in rule.kind)
        and (not rule.stage or company.stage in rule.stage)
        and (not rule.frames or _any(rule.frames, company.frames))
        and (not rule.inner or _any(rule.inner, company.inner))
        and (not rule.context or _any(rule.context, company.context))
        and not (rule.absent and _any(rule.absent, text))
        and all(holds(pattern, text) or holds(pattern, company.frames) for pattern in rule.all)
        and (not rule.versions or company.version is None or _within(company.version, rule.versions))
    )


def _within(version: str, versions: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version).base_version in SpecifierSet(versions)
    except (InvalidVersion, InvalidSpecifier):
        return True


def best(rules: Iterable[Rule], text: str, company: Company) -> Rule | None:
    """The rule that fits best: lowest rank first, then the order of the files."""
    found: Rule | None = None
    for rule in rules:
        if (found is None or rule.rank < found.rank) and not rule.explains and applies(rule, text, company):
            found = rule
    return found


def load(extra: Sequence[Path] = ()) -> tuple[Rule, ...]:
    """The kit's rules, and before them those of the operator's own files.

    Raises MissingError for a file that is not there, UsageError for one that is no rule file.
    """
    rules: list[Rule] = []
    for path in extra:
        rules += read(path)
    for path in sorted(HOME.glob("*.toml")):
        rules += read(path)
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise UsageError(f"two rules are called {rule.id!r}", hint="give the one in your own file another id")
        seen.add(rule.id)
    return tuple(rules)


def read(path: Path) -> list[Rule]:
    """The rules of one file. Raises MissingError or UsageError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MissingError(f"cannot read the rules {path}: {error.strerror}", hint=f"ls -l {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a rule file: {error}", hint="docs/diagnose.md shows one") from None
    return [_rule(entry, path) for entry in data.get("rule", [])]


_LISTS = ("remedy", "match", "all", "frames", "inner", "context", "absent", "stage", "kind", "explains")
_TEXTS = ("id", "category", "cause", "process", "versions")
_FOR_TESTS = ("example", "near_miss", "note")


def _rule(entry: dict[str, Any], path: Path) -> Rule:
    name = entry.get("id", "?")

    def fail(what: str) -> UsageError:
        return UsageError(f"{path}: rule {name!r}: {what}", hint="docs/diagnose.md shows how a rule is written")

    values: dict[str, Any] = {}
    for key, value in entry.items():
        if key in _FOR_TESTS:
            continue
        if key in _LISTS:
            value = [value] if isinstance(value, str) else value
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise fail(f"{key} must be text or a list of texts")
            values[key] = tuple(value)
        elif key in _TEXTS:
            if not isinstance(value, str):
                raise fail(f"{key} must be text")
            values[key] = value
        elif key in ("rank", "serverwide"):
            values[key] = value
        else:
            raise fail(f"unknown key {key!r}")
    for key in ("id", "category", "cause"):
        if not values.get(key):
            raise fail(f"{key} is missing")
    values.setdefault("remedy", ())
    if values["category"] not in CATEGORIES:
        raise fail(f"no such category {values['category']!r}")
    if values.get("process") not in (None, *ROLES):
        raise fail(f"no such process {values['process']!r}")
    if bad := [s for s in values.get("stage", ()) if s not in STAGES]:
        raise fail(f"no such stage {bad[0]!r}")
    if not any(values.get(key) for key in ("match", "all", "frames", "inner", "kind")):
        raise fail("it knows no text: match, all, frames, inner or kind is needed")
    return Rule(**values)
