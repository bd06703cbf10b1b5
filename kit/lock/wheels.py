"""The hash-locked list of wheels (requirements.lock): one file for each package, by name, size and SHA-256.

It is a requirements file that pip takes with --require-hashes; the comment behind each hash
carries the wheel's file name and size. It names no index: where a file comes from is a matter of
the machine, what it is was decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from packaging.tags import Tag, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

from kit.errors import UsageError

_ENTRY = re.compile(r"(?m)^(\S+)==(\S+) \\\n    --hash=sha256:([0-9a-f]{64})  # (\S+\.whl) (\d+)$")


@dataclass(frozen=True, order=True)
class Wheel:
    """One locked wheel. `size` in bytes (0: not known); `sha256` in hex."""

    name: str
    version: str
    file: str
    size: int
    sha256: str


def platforms(glibc: int, arch: str = "x86_64") -> list[str]:
    """Platform tags that a Linux with glibc 2.`glibc` runs, best first (PEP 600)."""
    legacy = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
    names: list[str] = []
    for minor in range(glibc, 4, -1):
        names.append(f"manylinux_2_{minor}_{arch}")
        if minor in legacy:
            names.append(f"{legacy[minor]}_{arch}")
    return [*names, f"linux_{arch}"]


def supported_tags(python: str, glibc: int) -> list[Tag]:
    """The wheel tags of CPython `python` ("3.11") on such a Linux, best first."""
    major, minor = (int(part) for part in python.split("."))
    where = platforms(glibc)
    general = [Tag(f"py{major}{minor}", "none", p) for p in where] + [Tag(f"py{major}", "none", p) for p in where]
    pure = [Tag(f"py{major}{m}", "none", "any") for m in range(minor, -1, -1)]
    return [
        *cpython_tags((major, minor), platforms=where),
        *general,
        Tag(f"py{major}", "none", "any"),
        *pure,
    ]


def from_pylock(document: dict[str, Any], python: str, glibc: int) -> list[Wheel]:
    """The best wheel of every package in a parsed pylock.toml (PEP 751).

    Raises UsageError for packages without a wheel or a hash for this Python and platform.
    """
    rank = {tag: place for place, tag in enumerate(supported_tags(python, glibc))}
    chosen, without = [], []
    for package in document.get("packages", []):
        best = _best(package.get("wheels", []), rank)
        if best is None:
            without.append(f"{package['name']}=={package.get('version', '?')}")
            continue
        chosen.append(
            Wheel(
                name=canonicalize_name(package["name"]),
                version=package["version"],
                file=file_name(best),
                size=int(best.get("size", 0)),
                sha256=best["hashes"]["sha256"],
            )
        )
    if without:
        raise UsageError("no wheel with a SHA-256 for these packages", evidence=without)
    return sorted(chosen)


def dump(wheels: Iterable[Wheel], comment: Sequence[str] = ()) -> str:
    """The text of a requirements.lock."""
    lines = [f"# {line}" for line in comment]
    for w in sorted(wheels):
        lines.append(f"{w.name}=={w.version} \\\n    --hash=sha256:{w.sha256}  # {w.file} {w.size}")
    return "\n".join(lines) + "\n"


def load(text: str, where: str) -> list[Wheel]:
    """Read a requirements.lock. Raises UsageError naming `where` for a line that is not of our form."""
    wheels = [Wheel(n, v, file, int(size), sha) for n, v, sha, file, size in _ENTRY.findall(text)]
    rest = [line for line in _ENTRY.sub("", text).splitlines() if line.strip() and not line.startswith("#")]
    if rest or len({w.name for w in wheels}) != len(wheels):
        raise UsageError(
            f"{where}: not a list that `kit lock` wrote",
            hint="git checkout that file, or make it again with `kit lock`",
            evidence=rest[:3] or ["a package is named twice"],
        )
    return wheels


def _best(wheels: list[dict[str, Any]], rank: dict[Tag, int]) -> dict[str, Any] | None:
    best: tuple[int, dict[str, Any]] | None = None
    for wheel in wheels:
        if "sha256" not in wheel.get("hashes", {}):
            continue
        _, _, _, tags = parse_wheel_filename(file_name(wheel))
        place = min((rank[tag] for tag in tags if tag in rank), default=None)
        if place is not None and (best is None or place < best[0]):
            best = (place, wheel)
    return best[1] if best else None


def file_name(wheel: dict[str, Any]) -> str:
    """The file name of a wheel in a pylock.toml: given, or the end of its address."""
    return str(wheel.get("name") or unquote((wheel.get("url") or wheel.get("path", "")).rsplit("/", 1)[-1]))
