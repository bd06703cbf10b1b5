"""Writing and reading files that may be split into parts, hashed as they pass."""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from kit.bundle import names

CHUNK = 1 << 20
FLUSH = 64 << 20  # written bytes after which the disk is asked to begin: at the end there is little to wait for


@dataclass(frozen=True)
class Piece:
    """A run of bytes of a file on disk."""

    path: Path
    offset: int
    length: int


@dataclass(frozen=True)
class Part:
    """A file that was written: its path, size in bytes and SHA-256."""

    path: Path
    size: int
    sha256: str


class PartsWriter:
    """Writes `path`, or `path`.000, .001, ... of at most `limit` bytes each; hashes each of them.

    Errors of the disk come as OSError. `patch` puts bytes into what was written before; their
    part's hash would then not be true, so `hashed` false leaves hashes out.
    """

    def __init__(self, path: Path, limit: int | None = None, *, hashed: bool = True):
        self._path, self._limit, self._hashed = path, limit, hashed
        self._file: BinaryIO | None = None
        self._hash, self._size = hashlib.sha256(), 0
        self._unflushed, self._flush = 0, _Flush()
        self.parts: list[Part] = []

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view.nbytes:
            if self._file is None:
                self._file = self._next().open("wb")
                self._hash, self._size = hashlib.sha256(), 0
            take = view[: self._limit - self._size] if self._limit else view
            self._file.write(take)
            if self._hashed:
                self._hash.update(take)
            self._size += take.nbytes
            self._unflushed += take.nbytes
            if self._unflushed >= FLUSH and self._flush.begin(self._file.fileno()):
                self._unflushed = 0
            view = view[take.nbytes :]
            if self._size == self._limit:
                self._end_part()

    @property
    def offset(self) -> int:
        """Bytes written so far, over all parts."""
        return sum(part.size for part in self.parts) + (self._size if self._file else 0)

    def patch(self, offset: int, data: bytes) -> None:
        """Overwrite bytes written earlier; they must lie in one part."""
        if self._file is not None:
            self._file.flush()
        number, inside = divmod(offset, self._limit) if self._limit else (0, offset)
        path = names.part(str(self._path), number) if self._limit else self._path
        with Path(path).open("r+b") as handle:
            handle.seek(inside)
            handle.write(data)

    def close(self) -> list[Part]:
        """End the last part; returns all. A file without a byte is one empty part."""
        if self._file is None and not self.parts:
            self._file = self._next().open("wb")
        if self._file is not None:
            self._end_part()
        return self.parts

    def _next(self) -> Path:
        return Path(names.part(str(self._path), len(self.parts))) if self._limit else self._path

    def _end_part(self) -> None:
        assert self._file is not None
        self._file.flush()
        self._flush.end()
        os.fsync(self._file.fileno())
        self._file.close()
        self.parts.append(Part(self._next(), self._size, self._hash.hexdigest()))
        self._file = None


class _Flush:
    """Brings a file to the disk while more of it is written."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None

    def begin(self, handle: int) -> bool:
        """Begin to flush an open file; false while that is under way already. Raises the last one's OSError."""
        if self._thread is not None and self._thread.is_alive():
            return False
        self.end()
        self._thread = threading.Thread(target=self._work, args=(handle,), daemon=True)
        self._thread.start()
        return True

    def end(self) -> None:
        """Wait for what was begun. Raises its OSError."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _work(self, handle: int) -> None:
        try:
            os.fdatasync(handle)
        except OSError as error:
            self._error = error


class Reader(io.RawIOBase):
    """Reads pieces one after another as one stream. A piece that ends early ends the stream there."""

    def __init__(self, pieces: Iterable[Piece]):
        self._pieces = iter(pieces)
        self._file: BinaryIO | None = None
        self._left = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        while not self._left:
            self._shut()
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._file = open_plain(piece.path)
            self._file.seek(piece.offset)
            self._left = piece.length
        assert self._file is not None
        count = self._file.readinto(view[: self._left])  # type: ignore[attr-defined]
        self._left = self._left - count if count else 0
        return int(count)

    def close(self) -> None:
        self._shut()
        super().close()

    def _shut(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading, unbuffered, refusing a symbolic link that took its place (OSError)."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb", buffering=0)


def chunks(source: io.RawIOBase | BinaryIO, good: int = 1) -> Iterator[memoryview]:
    """The stream in buffers of at most CHUNK bytes. A buffer is good until the `good`th after it is asked for."""
    buffers = itertools.cycle([memoryview(bytearray(CHUNK)) for _ in range(good)])
    for buffer in buffers:
        count = source.readinto(buffer)  # type: ignore[union-attr]
        if not count:
            return
        yield buffer[:count]


def sha256(pieces: Sequence[Piece], progress: Callable[[int], None] = lambda count: None) -> tuple[str, int]:
    """SHA-256 and size of the pieces together; `progress` gets the bytes of each step."""
    digest, size = hashlib.sha256(), 0
    with Reader(pieces) as source:
        for chunk in chunks(source):
            digest.update(chunk)
            size += chunk.nbytes
            progress(chunk.nbytes)
    return digest.hexdigest(), size


def window(parts: Sequence[Piece], offset: int, length: int) -> list[Piece]:
    """The pieces that hold `length` bytes from `offset` on of a file split into `parts`."""
    found = []
    for part in parts:
        start, end = max(offset, 0), min(offset + length, part.length)
        if start < end:
            found.append(Piece(part.path, part.offset + start, end - start))
        offset -= part.length
    return found
