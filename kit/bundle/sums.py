"""SHA256SUMS: the text that `sha256sum -c` reads, in one strict form; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kit.bundle import names

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
MAX_BYTES = 4 << 20


def dump(sums: Mapping[str, str]) -> bytes:
    """The file's bytes for a mapping of name to SHA-256 in hex, sorted by name."""
    return "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()


def load(data: bytes) -> dict[str, str]:
    """Name to SHA-256. Raises ValueError for a byte that `dump` would not have written, or a name that may not be."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise ValueError("is not text") from None
    sums: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not a hash, two spaces and a name")
        if why := names.fault(match[2]):
            raise ValueError(f"line {number}: the name {match[2]!r:.100} {why}")
        if match[2] in names.OUTSIDE_SUMS:
            raise ValueError(f"line {number}: {match[2]} cannot be listed in itself")
        sums[match[2]] = match[1]
    if dump(sums) != data:
        raise ValueError("its lines are not sorted, or a name stands twice")
    if twice := names.clashes(sums):
        raise ValueError(f"names differ only in upper and lower case: {twice[0]}")
    return sums
