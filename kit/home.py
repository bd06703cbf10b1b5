"""Where the kit keeps what it made itself: the private engine and the store of inputs."""

from __future__ import annotations

import os
from pathlib import Path


def kit_home() -> Path:
    """The kit's own folder: `KIT_HOME`, else `~/.local/share/kit` (absolute; not made here)."""
    named = os.environ.get("KIT_HOME")
    return Path(named).expanduser().absolute() if named else Path.home() / ".local" / "share" / "kit"
