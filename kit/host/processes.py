"""Who a process is: its name, user and container, from /proc. Never its command line: that may hold keys."""

from __future__ import annotations

import pwd
import re
from pathlib import Path

from kit.gpu.snapshot import Holder
from kit.host.root import text

CONTAINER = re.compile(r"(?:docker[-/]|containerd[-/]|/)([0-9a-f]{64})")


def holder(root: Path, pid: int) -> Holder:
    """The process of this id as far as /proc shows it; only the id when it is of another PID namespace or gone."""
    folder = root / "proc" / str(pid)
    try:
        user = pwd.getpwuid(folder.stat().st_uid).pw_name
    except OSError:
        return Holder(pid)
    except KeyError:
        user = str(folder.stat().st_uid)
    container = CONTAINER.search(text(folder / "cgroup") or "")
    return Holder(pid, None, text(folder / "comm"), user, container[1][:12] if container else None)
