"""Every check there is, and the choice among them by id or family."""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Iterable, Iterator, Sequence

from kit.checks.base import FAMILIES, Check
from kit.errors import UsageError


@functools.cache
def checks() -> dict[str, type[Check]]:
    """Every check by its id, families in the order of FAMILIES: each public class of `kit.checks.<family>`."""
    found: dict[str, type[Check]] = {}
    for family in FAMILIES:
        module = importlib.import_module(f"kit.checks.{family}")
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, Check) and "id" in vars(item):
                found[item.id] = item
    return found


def chosen(select: Sequence[str] = (), ignore: Sequence[str] = ()) -> list[str]:
    """The ids to report: those selected (all by default) without those ignored; each word an id or a family.

    Raises UsageError for a word that is neither.
    """
    wanted = set(_expand(select)) if select else set(checks())
    return [name for name in checks() if name in wanted - set(_expand(ignore))]


def in_order(wanted: Iterable[str]) -> list[str]:
    """`wanted` and all they require, each after what it requires."""
    order: list[str] = []

    def add(name: str) -> None:
        if name not in order:
            for required in checks()[name].requires:
                add(required)
            order.append(name)

    for name in wanted:
        add(name)
    return order


def _expand(words: Sequence[str]) -> Iterator[str]:
    for word in (part.strip() for item in words for part in item.split(",") if part.strip()):
        names = [name for name in checks() if word in (name, name.partition(".")[0])]
        if not names:
            near = difflib.get_close_matches(word, [*FAMILIES, *checks()], 1)
            raise UsageError(
                f"there is no check or family {word!r}",
                hint=f"did you mean {near[0]}?" if near else "kit doctor --list shows them all",
            )
        yield from names
