"""Quoting of values for the languages of the rendered files; pure.

A template can print only what a filter here returned, or a number: `{{ name }}` alone fails.
So a model name with quotes, spaces, `$()` or a newline comes through as itself or is refused.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from kit.errors import UsageError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_WORD = re.compile(r"[A-Za-z0-9._:/@+=,~-]+")


class Safe(str):
    """Text that is already right for the file it goes into."""


def finalize(value: Any) -> Any:
    """What the template engine prints for a value: Safe text and numbers; nothing else."""
    if isinstance(value, Safe) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r:.60} reached a template without a quoting filter")


def shell(value: str) -> Safe:
    """One word of a POSIX shell."""
    return Safe(shlex.quote(_checked(value)))


def shell_words(values: Iterable[str]) -> Safe:
    """Several words of a POSIX shell, on one line."""
    return Safe(" ".join(shell(value) for value in values))


def compose(value: Any) -> Safe:
    """A value of a compose file: JSON (which YAML contains), with `$` kept from interpolation."""
    for text in _strings(value):
        _checked(text)
    return Safe(json.dumps(value, ensure_ascii=False).replace("$", "$$"))


def json_value(value: Any) -> Safe:
    """A value of a JSON file, or of a YAML file that nobody interpolates."""
    for text in _strings(value):
        _checked(text)
    return Safe(json.dumps(value, ensure_ascii=True))


def systemd(value: str) -> Safe:
    """One argument of a systemd command line (systemd.service(5), "COMMAND LINES")."""
    text = _checked(value).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return Safe(f'"{text}"')


def systemd_path(value: str) -> Safe:
    """A path of a systemd setting that takes one, unquoted: only specifiers need care."""
    return Safe(_checked(value).replace("%", "%%"))


def python(value: Any) -> Safe:
    """A Python literal."""
    return Safe(repr(value))


def word(value: str) -> Safe:
    """A value that must be harmless in any language: letters, digits and ._:/@+=,~-"""
    if not _WORD.fullmatch(value):
        raise UsageError(f"{value!r:.80} cannot stand in a rendered file", hint="use letters, digits and ._:/@+=,~-")
    return Safe(value)


def dockerfile(value: str) -> Safe:
    """One value of a Dockerfile's ENV or LABEL, in double quotes."""
    text = _checked(value).replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return Safe(f'"{text}"')


def comment(value: str) -> Safe:
    """One line of a comment."""
    return Safe("".join(c if c.isprintable() else "?" for c in value))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from (key, *_strings(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _checked(value: str) -> str:
    value = str(value)  # an undefined name fails here, with its name
    if _CONTROL.search(value) or "\n" in value:
        raise UsageError(f"{value!r:.80} holds a control character", hint="remove it from kit.yaml")
    return value


FILTERS = {"json": json_value} | {
    f.__name__: f for f in (shell, shell_words, compose, systemd, systemd_path, python, word, dockerfile, comment)
}
