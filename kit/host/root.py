"""Where the kernel's files are read: `/`, or a copy of another machine's `/proc`, `/sys` and `/dev`.

KIT_HOST_ROOT names such a copy: a support bundle's, or the made-up machine of a test.
"""

from __future__ import annotations

import os
from pathlib import Path


def host_root() -> Path:
    """The folder below which `proc`, `sys`, `dev` and `etc` are read."""
    return Path(os.environ.get("KIT_HOST_ROOT") or "/")


def text(path: Path) -> str | None:
    """A file's text without the last newline; None when it is not there or may not be read."""
    try:
        return path.read_text(errors="replace").rstrip("\n")
    except OSError:
        return None


def number(path: Path) -> int | None:
    """A file's text as a decimal or 0x number; None when it holds none."""
    found = text(path)
    try:
        return None if found is None else int(found.strip(), 0)
    except ValueError:
        return None
