"""Where this machine's pip looks for packages, plus KIT_EXTRA_INDEX; no address is written anywhere by the kit."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from kit import proc

EXTRA_INDEX = "KIT_EXTRA_INDEX"


@dataclass(frozen=True)
class Indexes:
    """pip's settings: the main index (empty: pip's default), further ones, folders or pages of links, constraints."""

    index: str
    extra: tuple[str, ...]
    links: tuple[str, ...]
    constraints: tuple[str, ...]

    def pip_options(self) -> list[str]:
        """For pip, which reads its own settings: only what the kit's environment adds."""
        added = _words(os.environ.get(EXTRA_INDEX, ""))
        return [f"--extra-index-url={address}" for address in ([*self.extra, *added] if added else [])]

    def uv_options(self) -> list[str]:
        """The same places for uv, which does not read pip's settings."""
        added = _words(os.environ.get(EXTRA_INDEX, ""))
        options = [f"--index-url={self.index}"] if self.index else []
        options += [f"--extra-index-url={a}" for a in (*self.extra, *added)]
        options += [f"--find-links={a}" for a in self.links]
        return [*options, *(f"--constraints={a}" for a in self.constraints)]


def configured() -> Indexes:
    """The settings of the pip beside this Python; empty ones where there is no pip."""
    done = proc.run([sys.executable, "-m", "pip", "config", "list"], check=False)
    return parse(done.out.splitlines() if done.code == 0 else [])


def parse(lines: Iterable[str]) -> Indexes:
    """Read `pip config list`: lines such as global.index-url='...'; the environment wins over files."""
    values: dict[str, list[tuple[bool, str]]] = {}
    for line in lines:
        key, _, quoted = line.partition("=")
        section, _, name = key.rpartition(".")
        try:
            value = ast.literal_eval(quoted)
        except (SyntaxError, ValueError):
            continue
        values.setdefault(name, []).append((section.startswith(":env:"), str(value)))

    def last(name: str) -> str:
        found = sorted(values.get(name, []), key=lambda entry: entry[0])
        return found[-1][1] if found else ""

    return Indexes(
        index=last("index-url"),
        extra=_words(last("extra-index-url")),
        links=_words(last("find-links")),
        constraints=_words(last("constraint")),
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())
