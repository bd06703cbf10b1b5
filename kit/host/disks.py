"""Folders and the disks below them: free space, kind of filesystem, and how fast a folder's files read."""

from __future__ import annotations

import mmap
import os
import time
from dataclasses import dataclass
from pathlib import Path

from kit.host.root import host_root, text

NETWORK = ("nfs", "cifs", "smb", "ceph", "glusterfs", "lustre", "beegfs", "9p", "virtiofs", "fuse")
BLOCK = 8 << 20


@dataclass(frozen=True)
class Disk:
    """The filesystem that holds a path. Bytes; `network`: it is one that goes over a network or through FUSE."""

    path: str
    mount: str | None
    kind: str | None
    source: str | None
    free: int
    total: int

    @property
    def network(self) -> bool:
        return bool(self.kind) and str(self.kind).startswith(NETWORK)


def disk(path: Path, root: Path | None = None) -> Disk:
    """The filesystem of `path`, or of its nearest parent that exists (where it would be made)."""
    at = path.absolute()
    while at != at.parent and not os.access(at, os.F_OK):
        at = at.parent
    space = os.statvfs(at)
    mount, kind, source = _mount(at.resolve(), root or host_root())
    return Disk(str(path), mount, kind, source, space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize)


def _mount(path: Path, root: Path) -> tuple[str | None, str | None, str | None]:
    """The last mount whose point holds `path`: (point, filesystem type, source)."""
    found: tuple[str | None, str | None, str | None] = (None, None, None)
    longest = -1
    for line in (text(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape")
        if path.is_relative_to(point) and len(point) >= longest:
            kind, source = after.split()[:2]
            found, longest = (point, kind, source), len(point)
    return found


def read_speed(folder: Path, seconds: float = 0.25) -> float | None:
    """Bytes a second read from the largest file below `folder`, past the page cache where the filesystem allows.

    Reads for about `seconds`, from the file's middle. None when there is no file of 16 MiB or more, or none readable.
    """
    sizes = {path: path.stat().st_size for path in folder.glob("*") if path.is_file()}
    largest = max(sizes, key=lambda path: sizes[path], default=None)
    if largest is None or sizes[largest] < 2 * BLOCK:
        return None
    try:
        handle = _open_past_cache(largest)
    except OSError:
        return None
    buffer = mmap.mmap(-1, BLOCK)
    at = sizes[largest] // 2 // BLOCK * BLOCK
    read, began = 0, time.perf_counter()
    try:
        while time.perf_counter() - began < seconds:
            got = os.preadv(handle, [buffer], at)
            if got == 0:
                break
            read, at = read + got, at + got
    except OSError:
        return None
    finally:
        os.close(handle)
    return read / (time.perf_counter() - began) if read else None


def _open_past_cache(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:  # tmpfs and some network filesystems have no direct reads
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        return handle
