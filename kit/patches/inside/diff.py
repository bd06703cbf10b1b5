"""Unified diffs, applied to the letter.

Not patch(1): it searches for a place where a hunk fits, and even with --fuzz=0 it moves hunks silently.
Here every line must stand where the diff says it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .common import INTEGRITY, Refused


@dataclass(frozen=True)
class Hunk:
    """One hunk: the line where it stands (from 1), the lines it wants there, the lines it leaves there."""

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


class HunkFailed(Refused):
    """A hunk that does not stand where its diff says."""

    def __init__(self, path: str, number: int, hunk: Hunk, found: list[str]):
        at = next(
            (i for i, (a, b) in enumerate(zip(hunk.old, found, strict=False)) if a != b), min(len(hunk.old), len(found))
        )
        wanted = hunk.old[at] if at < len(hunk.old) else "(end of the file)"
        line = found[at] if at < len(found) else "(end of the file)"
        super().__init__(
            INTEGRITY,
            f"hunk {number} does not apply to {path}: line {hunk.start + at} is not what the patch was made for",
            [f"wanted: {wanted}", f"found:  {line}"],
        )


def parse_diff(text: str) -> dict[str, list[Hunk]]:
    """The hunks of each file in a unified diff; text before the first file is talk.

    Raises Refused for anything but changes of existing files below site-packages.
    """
    files: dict[str, list[Hunk]] = {}
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    at = 0
    while at < len(lines) and not lines[at].startswith("--- "):
        at += 1
    while at < len(lines):
        path = _diff_path(lines[at : at + 2])
        hunks = files.setdefault(path, [])
        at += 2
        while at < len(lines) and (head := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*", lines[at])):
            start, old_count, new_count = int(head[1]), int(head[2] or 1), int(head[4] or 1)
            old: list[str] = []
            new: list[str] = []
            at += 1
            while (len(old), len(new)) != (old_count, new_count):
                line = lines[at] if at < len(lines) else ""
                if line[:1] not in (" ", "-", "+") or len(old) > old_count or len(new) > new_count:
                    raise Refused(INTEGRITY, f"damaged diff: line {at + 1} is not what hunk {len(hunks) + 1} announces")
                if line[0] != "+":
                    old.append(line[1:])
                if line[0] != "-":
                    new.append(line[1:])
                at += 1
            hunks.append(Hunk(start, tuple(old), tuple(new)))
        if not hunks or (at < len(lines) and not lines[at].startswith("--- ")):
            raise Refused(INTEGRITY, f"damaged diff: line {at + 1} belongs to no hunk")
    if not files:
        raise Refused(INTEGRITY, "damaged diff: it changes no file")
    return files


def _diff_path(head: list[str]) -> str:
    """The path both header lines name, below site-packages."""
    names = [line[4:].split("\t")[0] for line in head]
    path = names[0].partition("/")[2]
    if len(head) != 2 or not head[1].startswith("+++ ") or names != ["a/" + path, "b/" + path]:
        raise Refused(INTEGRITY, f"a patch may only change files that exist: {' '.join(head)}")
    if not path.endswith(".py") or any(part in ("", ".", "..") for part in path.split("/")):
        raise Refused(INTEGRITY, f"a patch may only change Python files below site-packages: {path}")
    return path


def apply_hunks(path: str, text: str, hunks: list[Hunk]) -> str:
    """`text` with every hunk applied at its own line; raises HunkFailed for the first that does not fit."""
    lines = text.split("\n")
    out: list[str] = []
    done = 0
    for number, hunk in enumerate(hunks, 1):
        at = hunk.start - 1
        found = lines[at : at + len(hunk.old)] if at >= done else []
        if tuple(found) != hunk.old:
            raise HunkFailed(path, number, hunk, found)
        out += lines[done:at] + list(hunk.new)
        done = at + len(hunk.old)
    return "\n".join(out + lines[done:])
