"""Licences as packages name them, to SPDX identifiers where one is known; pure. The spellings are in licences.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources

_NO_NAME = "License :: OSI Approved"
_LONGEST_NAME = 80  # a longer License field is the text of a licence, not its name


@cache
def spellings() -> dict[str, dict[str, str]]:
    """licences.toml: "debian", "phrases" and "python", each spelling -> SPDX identifier."""
    return tomllib.loads(resources.files("kit.sbom").joinpath("licences.toml").read_text())


def debian(text: str) -> tuple[str, ...]:
    """The licences that a Debian copyright file names, each once, sorted.

    Of a machine-readable file those of its Files and header stanzas; of another those whose words it
    uses and the common licences that it points to.
    """
    names: set[str] = set()
    if re.match(r"\s*Format(-Specification)?:", text):
        for stanza in re.split(r"\n\s*\n", text):
            if re.search(r"(?mi)^Files:", stanza) or re.match(r"\s*Format", stanza):
                found = re.search(r"(?mi)^License:[ \t]*(.*)$", stanza)
                names |= set(_words(found[1])) if found else set()
    else:
        told = set(in_text(text))
        names = set(re.findall(r"/usr/share/common-licenses/([A-Za-z][A-Za-z0-9.+-]*[A-Za-z0-9])", text))
        return tuple(sorted(told | names))  # "GPL-2" here may mean that version or any later: left as written
    return tuple(sorted({_known(name, "debian") for name in names}))


def in_text(text: str) -> tuple[str, ...]:
    """The licences whose words a text uses."""
    plain = " ".join(text.split()).lower()
    return tuple(sorted({spdx for phrase, spdx in spellings()["phrases"].items() if phrase.lower() in plain}))


def python(expression: str, licence: str, classifiers: Sequence[str]) -> tuple[str, ...]:
    """The licences of Python metadata: the SPDX expression, else short name, else classifiers, else its words."""
    if expression:
        return (expression,)
    if licence and "\n" not in licence and len(licence) <= _LONGEST_NAME and licence.upper() != "UNKNOWN":
        return (_known(licence, "python"),)
    ends = tuple(
        c.rsplit(" :: ", 1)[-1] for c in classifiers if c.startswith("License :: ") and not c.endswith(_NO_NAME)
    )
    return tuple(sorted({_known(end, "python") for end in ends})) or in_text(licence)


def _words(text: str) -> Iterable[str]:
    """The names in Debian's "GPL-2+ or Artistic, and Expat"; an exception stays with its licence."""
    for part in re.split(r",?\s+(?:and|or)\s+|,\s*|\s*\|\s*", text.strip()):
        if name := part.strip(" ()"):
            yield name


def _known(name: str, kind: str) -> str:
    return spellings()[kind].get(name, name)
