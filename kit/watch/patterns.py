"""The stages and the lines that mark them, from stages.toml."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.errors import KitError

HOME = Path(__file__).with_name("stages.toml")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its place in a start (`order`), its name for people, the longest normal silence in it
    (`stall`, seconds; None: only limits.stall_timeout counts) and what that limit is multiplied with."""

    id: str
    title: str
    order: int
    stall: int | None
    factor: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A line that shows a stage; see stages.toml for what each field means."""

    stage: str
    pattern: re.Pattern[str]
    example: str
    start: bool = False
    back: bool = False
    draft: bool = False
    loaded: bool = False


@dataclass(frozen=True, slots=True)
class BarMark:
    """The description of a progress bar that belongs to a stage."""

    stage: str
    pattern: re.Pattern[str]
    example: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Patterns:
    """All that stages.toml says. `stages` is in order."""

    stages: dict[str, Stage]
    marks: tuple[Mark, ...]
    bars: tuple[BarMark, ...]

    def mark(self, text: str) -> tuple[Mark, re.Match[str]] | None:
        """The first mark that a message shows, and what it captured."""
        for mark in self.marks:
            if match := mark.pattern.search(text):
                return mark, match
        return None

    def bar(self, label: str) -> BarMark | None:
        """The mark of a progress bar with this description."""
        return next((bar for bar in self.bars if bar.pattern.search(label)), None)


@functools.cache
def patterns() -> Patterns:
    """stages.toml, read once. Raises KitError when it contradicts itself."""
    raw = tomllib.loads(HOME.read_text())
    stages = {
        item["id"]: Stage(item["id"], item["title"], order, item.get("stall"), item.get("factor", 1))
        for order, item in enumerate(raw["stage"])
    }
    marks = tuple(_compiled(Mark, item, stages) for item in raw["mark"])
    bars = tuple(_compiled(BarMark, item, stages) for item in raw["bar"])
    return Patterns(stages, marks, bars)


def _compiled(kind: Any, item: dict[str, Any], stages: dict[str, Stage]) -> Any:
    try:
        if {item["stage"], item.get("after", item["stage"])} - stages.keys():
            raise KeyError(item["stage"])
        return kind(**(item | {"pattern": re.compile(item["pattern"])}))
    except (KeyError, TypeError, re.error) as error:
        raise KitError(
            f"{HOME.name}: {item.get('example') or item}: {error}", hint="mend kit/watch/stages.toml"
        ) from error
