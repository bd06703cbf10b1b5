"""Files, whole or not at all: atomic writes, hashes, locks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from kit.errors import MissingError, UsageError

CHUNK = 1 << 20


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """Write a file beside `path` and rename it over `path` only when the block ends well.

    Raises MissingError when the disk is full or the folder may not be written; then `path` is
    as it was and nothing is left beside it.
    """
    try:
        _no_device(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        fd, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise no_write(path, error) from None
    try:
        with os.fdopen(fd, "wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        try:
            Path(name).chmod(mode)
            Path(name).replace(path)
        except OSError as error:  # a folder or a mount point in its place, say
            raise no_write(path, error) from None
    except OSError as error:
        _remove(name)
        if error.errno in (errno.ENOSPC, errno.EACCES, errno.EPERM, errno.EROFS, errno.EDQUOT):
            raise no_write(path, error) from None
        raise
    except BaseException:
        _remove(name)
        raise


def _no_device(path: Path) -> None:
    """Raise OSError where something else than a file is: a rename would put a file in the place of /dev/null."""
    with contextlib.suppress(FileNotFoundError):
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "a folder is there" if stat.S_ISDIR(kind) else "no file, but a device or pipe")


def write(path: Path, data: bytes | str, mode: int = 0o644) -> None:
    """Put `data` (text as UTF-8) at `path` in one step."""
    with replacing(path, mode) as handle:
        handle.write(data.encode() if isinstance(data, str) else data)


def read(path: Path, limit: int) -> bytes:
    """The bytes of a file that should be small. Raises OSError, also for what is no file (a pipe would be waited for),
    and ValueError when it is longer than `limit`."""
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "a folder" if stat.S_ISDIR(kind) else "not a regular file", str(path))
    with path.open("rb") as handle:
        data = handle.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"longer than {limit} bytes")
    return data


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextlib.contextmanager
def locked(
    path: Path, *, what: str, wait: bool = False, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold an exclusive lock on `path` (made if absent); it ends with the process, however that ends.

    With `wait` false a lock held by another process raises UsageError naming `what` is under way;
    otherwise `on_wait` is told once that there is one to wait for.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a+")
    except OSError as error:
        raise no_write(path, error) from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise UsageError(
                    f"another kit is at work here: {what}", hint="wait for it to end, or end it, then run this again"
                ) from None
            if on_wait:
                on_wait(f"waiting for another kit: {what}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def need_space(folder: Path, size: int, what: str, hint: str | None = None) -> None:
    """Raise MissingError unless the disk of `folder`, which need not exist yet, has `size` bytes free for `what`."""
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if free < size:
        raise MissingError(
            f"{what} needs {size / 1e9:.1f} GB on the disk of {folder}; {free / 1e9:.1f} GB are free",
            hint=hint or "free some space (kit fetch --gc; docker system prune), or set KIT_HOME to a larger disk",
        )


def no_read(path: Path, error: OSError) -> MissingError:
    """The error for a path that cannot be read, with what a person can do about it."""
    return MissingError(f"cannot read {path}: {error.strerror}", hint=f"ls -ld {path}; mend it or move it away")


def no_write(path: Path, error: OSError) -> MissingError:
    """The error for a path that cannot be written, with what a person can do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return MissingError(
            f"no space left while writing {path}", hint=f"df -h {path.parent}; free some, then run this again"
        )
    return MissingError(f"cannot write {path}: {error.strerror}", hint=f"ls -ld {path.parent}; check who owns it")


def _remove(name: str) -> None:
    with contextlib.suppress(OSError):
        Path(name).unlink()
