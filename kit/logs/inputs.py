"""Opens what a log may come in: plain, gzip, zstd, xz; a support bundle; several rotated files as one."""

from __future__ import annotations

import contextlib
import io
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from kit.errors import MissingError, UsageError

_CHUNK = 1 << 20
_TAR_AT = 257  # where a tar header says "ustar"
CONTAINER_LOG = "container.log"  # the log in a support bundle
_ROTATED = re.compile(r"^(?P<name>.*?)[.-](?P<turn>\d{1,4})(?P<packed>\.(?:gz|zst|xz))?$")


@dataclass(slots=True)
class Part:
    """One file of a log and the number of its first line in the whole."""

    path: str
    first: int = 1


def packed(path: Path) -> bool:
    """Whether a file is compressed or an archive (by its first bytes)."""
    with path.open("rb") as handle:
        head = handle.read(_TAR_AT + 5)
        return _packing(head) is not None or head[_TAR_AT:] == b"ustar"


def _packing(head: bytes) -> str | None:
    for magic, name in ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\x00", "xz")):
        if head.startswith(magic):
            return name
    return None


def chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a log file, decompressed; of a support bundle those of the container's log. A file that breaks off
    inside is read up to there.

    Raises OSError when it cannot be opened.
    """
    with path.open("rb") as raw:
        packing = _packing(raw.read(6))
        raw.seek(0)
        pieces = _pieces(_unpack(raw, packing), packing)
        first = next(pieces, b"")
        if first[_TAR_AT : _TAR_AT + 5] == b"ustar":
            yield from _member(first, pieces)
        else:
            yield first
            yield from pieces


def _pieces(handle: IO[bytes], packing: str | None) -> Iterator[bytes]:
    while True:
        try:
            chunk = handle.read(_CHUNK)
        except _broken(packing):
            return
        if not chunk:
            return
        yield chunk


class _Stream(io.RawIOBase):
    """Chunks as a file that can be read once."""

    def __init__(self, first: bytes, rest: Iterator[bytes]) -> None:
        self._have, self._rest = first, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._have:
            self._have = next(self._rest, b"")
        count = min(len(buffer), len(self._have))
        buffer[:count], self._have = self._have[:count], self._have[count:]
        return count


def _member(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """The first container.log in an archive; nothing is unpacked to disk. Raises UsageError when it holds none."""
    whole = io.BufferedReader(_Stream(first, rest))
    with contextlib.suppress(tarfile.TarError, EOFError), tarfile.open(fileobj=whole, mode="r|") as archive:
        for member in archive:
            found = archive.extractfile(member) if member.isfile() else None
            if found is not None and member.name.rsplit("/", 1)[-1] == CONTAINER_LOG:
                while chunk := found.read(_CHUNK):
                    yield chunk
                return
    raise UsageError(f"the archive holds no {CONTAINER_LOG}", hint="unpack it: tar -xf FILE; kit diagnose LOG")


def _unpack(raw: IO[bytes], packing: str | None) -> IO[bytes]:
    if packing == "gzip":
        import gzip

        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if packing == "xz":
        import lzma

        return cast("IO[bytes]", lzma.LZMAFile(raw))
    if packing == "zstd":
        import zstandard

        return cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
    return raw


def _broken(packing: str | None) -> tuple[type[Exception], ...]:
    """What a decompressor raises on a file cut short or damaged."""
    if packing == "gzip":
        import zlib

        return (EOFError, OSError, zlib.error)
    if packing == "xz":
        import lzma

        return (EOFError, lzma.LZMAError)
    if packing == "zstd":
        import zstandard

        return (zstandard.ZstdError,)
    return ()


def in_order(paths: Sequence[Path]) -> list[Path]:
    """Rotated files of one log oldest first (`log.2.gz log.1 log`); others stay as they were given."""
    turns = [_ROTATED.match(p.name) for p in paths]
    names = {(p.parent, m["name"] if m else p.name) for p, m in zip(paths, turns, strict=True)}
    if len(paths) < 2 or len(names) > 1:
        return list(paths)
    return [p for p, _ in sorted(zip(paths, turns, strict=True), key=lambda pm: -int(pm[1]["turn"]) if pm[1] else 1)]


def check(path: Path) -> None:
    """Raises MissingError or UsageError, with what to do, when `path` is no readable file."""
    try:
        with path.open("rb") as handle:
            handle.read(1)
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder", hint=f"kit diagnose {path}/*.log") from None
    except FileNotFoundError:
        raise MissingError(f"there is no {path}", hint=f"ls -l {path.parent}") from None
    except OSError as error:
        raise MissingError(f"cannot read {path}: {error.strerror}", hint=f"ls -l {path}") from None
