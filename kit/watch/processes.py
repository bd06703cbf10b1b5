"""The processes of a container as this machine's kernel shows them: an edge that only reads /proc and cgroup files.

Without root, on another machine's engine or inside a virtual machine some or all of it is absent; then the
answer is None, and whoever asks goes on without it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kit.host.root import host_root, text

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One process: `pid` here, `inner` inside its container, `state` as proc(5) names it (R, S, D, Z, T), CPU
    seconds so far, bytes read from disks so far (None: may not be seen), resident bytes."""

    pid: int
    inner: int
    name: str
    state: str
    cpu_s: float
    read_bytes: int | None
    rss_bytes: int


def of_container(init_pid: int, root: Path | None = None) -> tuple[ProcessSample, ...] | None:
    """All processes of the container whose first process is `init_pid` here; None when they cannot be seen."""
    root = root or host_root()
    if init_pid <= 0:
        return None
    pids = _members(root, init_pid)
    if pids is None:
        return None
    found = (_sample(root, pid) for pid in pids)
    return tuple(sample for sample in found if sample is not None)


def oom_kills(init_pid: int, root: Path | None = None) -> int | None:
    """How many processes of the container the kernel has ended for want of memory, its own limit's or the machine's;
    None when that cannot be seen (the container has ended, or is on another machine)."""
    root = root or host_root()
    for folder in _folders(root, init_pid, "memory"):
        for name in ("memory.events", "memory.oom_control"):
            counted = re.search(r"^oom_kill (\d+)$", text(folder / name) or "", re.MULTILINE)
            if counted:
                return int(counted[1])
    return None


def _members(root: Path, init_pid: int) -> list[int] | None:
    """The ids in the container's cgroup (v2, or the pids controller of v1)."""
    for folder in _folders(root, init_pid, "pids"):
        if listed := text(folder / "cgroup.procs"):
            return [int(pid) for pid in listed.split()]
    return None


def _folders(root: Path, init_pid: int, controller: str) -> Iterator[Path]:
    """The container's cgroup folders that may hold the controller's files: v1's own, v2's."""
    for line in (text(root / f"proc/{init_pid}/cgroup") or "").splitlines():
        number, names, path = line.split(":", 2)
        if not path.strip("/"):
            continue
        if number == "0" and not names:
            yield root / "sys/fs/cgroup" / path.lstrip("/")
        elif controller in names.split(","):
            yield root / "sys/fs/cgroup" / controller / path.lstrip("/")


def _sample(root: Path, pid: int) -> ProcessSample | None:
    stat = text(root / f"proc/{pid}/stat")
    if not stat or ")" not in stat:
        return None
    name = stat[stat.index("(") + 1 : stat.rindex(")")]
    rest = stat[stat.rindex(")") + 2 :].split()
    io = re.search(r"^read_bytes: (\d+)", text(root / f"proc/{pid}/io") or "", re.MULTILINE)
    inner = re.search(r"^NSpid:.*\s(\d+)$", text(root / f"proc/{pid}/status") or "", re.MULTILINE)
    return ProcessSample(
        pid=pid,
        inner=int(inner[1]) if inner else pid,
        name=name,
        state=rest[0],
        cpu_s=(int(rest[11]) + int(rest[12])) / _TICKS,
        read_bytes=int(io[1]) if io else None,
        rss_bytes=int(rest[21]) * _PAGE,
    )
