"""The locked list of Debian packages (debian.lock): name, version, architecture, size, SHA-256, path in the archive."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kit.errors import UsageError

_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, order=True)
class Deb:
    """One locked package. `size` in bytes, `sha256` in hex, `path` below any mirror's root."""

    name: str
    version: str
    arch: str
    size: int
    sha256: str
    path: str

    @property
    def file(self) -> str:
        return self.path.rsplit("/", 1)[-1]


def dump(debs: Iterable[Deb], comment: Sequence[str] = ()) -> str:
    """The text of a debian.lock."""
    rows = [f"{d.name} {d.version} {d.arch} {d.size} {d.sha256} {d.path}" for d in sorted(debs)]
    return "\n".join([*(f"# {line}" for line in comment), *rows]) + "\n"


def load(text: str, where: str) -> list[Deb]:
    """Read a debian.lock. Raises UsageError naming `where` and the line that is not of our form."""
    debs = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split()
        if len(fields) != 6 or not fields[3].isdigit() or not _HASH.fullmatch(fields[4]):
            raise UsageError(
                f"{where}:{number}: not a line that `kit lock` wrote",
                hint="git checkout that file, or make it again with `kit lock`",
                evidence=[line[:200]],
            )
        debs.append(Deb(fields[0], fields[1], fields[2], int(fields[3]), fields[4], fields[5]))
    return debs


def from_apt_show(text: str) -> list[Deb]:
    """The packages described in the output of `apt-cache show`."""
    debs = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"(?m)^(Package|Version|Architecture|Size|SHA256|Filename): (.*)$", stanza))
        if len(fields) == 6:
            debs.append(
                Deb(
                    fields["Package"],
                    fields["Version"],
                    fields["Architecture"],
                    int(fields["Size"]),
                    fields["SHA256"],
                    fields["Filename"],
                )
            )
    return debs
