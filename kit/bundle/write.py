"""Writes a bundle: the same bytes for the same contents, streamed, whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kit.bundle import keys, names, sums, tar
from kit.bundle.ahead import DEPTH, ahead
from kit.bundle.images import Canonical
from kit.bundle.parts import Part, PartsWriter, Piece, Reader, chunks
from kit.errors import UsageError
from kit.files import no_write

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LEVEL = 3
# Each thread holds a job of 8 MiB and its output: six keep the process within 200 MB.
MAX_THREADS = 6
SMALLEST_PART = 1 << 20
Data = bytes | Path


class Target(Protocol):
    """Where files of a bundle go."""

    def add(self, name: str, data: Iterable[bytes | memoryview], size: int | None = None) -> dict[str, str]:
        """Write one file; returns name and SHA-256 of it, or of each of its parts."""
        ...

    def finish(self) -> None:
        """Put the whole in its place."""
        ...


@dataclass
class FolderTarget:
    """A folder; files beyond `limit` bytes in parts. `place` appears only when all is written."""

    place: Path
    limit: int | None = None
    _work: Path = field(init=False)

    def __post_init__(self) -> None:
        self._work = self.place.with_name(f".{self.place.name}.part")
        _remove(self._work)
        self._work.mkdir(parents=True)

    def add(self, name: str, data: Iterable[bytes | memoryview], size: int | None = None) -> dict[str, str]:
        path = self._work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        split = self.limit if self.limit and (size is None or size > self.limit) else None
        writer = PartsWriter(path, split)
        for chunk in data:
            writer.write(chunk)
        for part in writer.close():
            _stamp(part.path, 0o755 if names.executable(name) else 0o644)
        return {str(part.path.relative_to(self._work)): part.sha256 for part in writer.parts}

    def finish(self) -> None:
        old = self.place.with_name(f".{self.place.name}.old")
        _remove(old)
        if self.place.exists():
            self.place.rename(old)
        self._work.rename(self.place)
        _sync(self.place.parent)
        _remove(old)


@dataclass
class FileTarget:
    """One archive, `place`; in parts of `limit` bytes (place.000, .001, ...) where that is given."""

    place: Path
    top: str
    limit: int | None = None
    _writer: PartsWriter = field(init=False)

    def __post_init__(self) -> None:
        for stale in self._pieces(f".{self.place.name}.part"):
            stale.unlink()
        self.place.parent.mkdir(parents=True, exist_ok=True)
        self._writer = PartsWriter(self.place.with_name(f".{self.place.name}.part"), self.limit, hashed=False)

    def add(self, name: str, data: Iterable[bytes | memoryview], size: int | None = None) -> dict[str, str]:
        at, digest, written = self._writer.offset, hashlib.sha256(), 0
        run = names.executable(name)
        self._writer.write(tar.header(f"{self.top}/{name}", size or 0, executable=run))
        for chunk in data:
            digest.update(chunk)
            written += len(chunk)
            self._writer.write(chunk)
        self._writer.write(bytes(tar.padding(written)))
        if written != size:  # not known before: a compressed stream
            for place, block in _blocks(at, tar.header(f"{self.top}/{name}", written, executable=run)):
                self._writer.patch(place, block)
        return {name: digest.hexdigest()}

    def finish(self) -> None:
        self._writer.write(tar.END)
        parts: list[Part] = self._writer.close()
        kept = set()
        for part in parts:
            name = part.path.name.removeprefix(".").replace(f"{self.place.name}.part", self.place.name, 1)
            part.path.replace(self.place.with_name(name))
            kept.add(name)
        for stale in self._pieces(self.place.name):
            if stale.name not in kept:
                stale.unlink()
        _sync(self.place.parent)

    def _pieces(self, name: str) -> list[Path]:
        """The file of that name beside `place`, and every part of one."""
        if not self.place.parent.is_dir():
            return []
        found = (p for p in self.place.parent.iterdir() if p.name.startswith(name))
        return [p for p in found if p.name == name or names.split_part(p.name) == (name, int(p.name[-3:]))]


def write_bundle(
    target: Target,
    files: Mapping[str, Data],
    image: Canonical,
    last: Callable[[], Mapping[str, bytes]],
    signer: Ed25519PrivateKey | None,
    progress: Callable[[int], None] = lambda count: None,
) -> dict[str, str]:
    """Write every file, then the image, then those that `last` makes, SHA256SUMS and the signatures.

    Returns the sums. `progress` gets the bytes read since the last call. Raises MissingError when
    the disk is full or the target cannot be written; then nothing but a `.part` is left, which the
    next run removes.
    """
    found: dict[str, str] = {}
    try:
        for name, data in sorted(files.items()):
            found |= target.add(name, _counted(_chunks(data), progress), _size(data))
        read = _counted(image.stream(good=DEPTH + 2), progress)
        with contextlib.closing(ahead(compress(ahead(read)))) as packed:
            found |= target.add(names.IMAGE, packed)
        for name, data in sorted(last().items()):
            found |= target.add(name, [data], len(data))
        listing = sums.dump(found)
        closing = {names.SUMS: listing}
        if signer is not None:
            closing[names.SIGNATURE], closing[names.SSH_SIGNATURE] = keys.sign(signer, listing)
        for name, data in closing.items():
            target.add(name, [data], len(data))
        target.finish()
    except OSError as error:
        raise no_write(getattr(target, "place", Path()), error) from None
    return found


def compress(data: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """`data` as one zstd frame. The bytes do not depend on the number of threads or on how the input was cut."""
    import zstandard

    threads = max(1, min(os.cpu_count() or 1, MAX_THREADS))
    # without a checksum of zstd's own: SHA256SUMS holds a better one, and every layer has its digest
    settings = zstandard.ZstdCompressionParameters.from_level(LEVEL, threads=threads)
    work = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    for chunk in data:
        if out := work.compress(chunk):
            yield out
    yield work.flush()


def check_limit(limit: int | None) -> None:
    """Raise UsageError for a size of parts that cannot be."""
    if limit is not None and (limit < SMALLEST_PART or limit % tar.BLOCK):
        raise UsageError("parts must be at least 1MiB and a multiple of 512 bytes", hint="--chunk 4000MiB")


def _chunks(data: Data) -> Iterator[bytes | memoryview]:
    if isinstance(data, bytes):
        yield data
    else:
        with Reader([Piece(data, 0, data.stat().st_size)]) as source:
            yield from chunks(source)


def _size(data: Data) -> int:
    return len(data) if isinstance(data, bytes) else data.stat().st_size


def _counted(data: Iterable[bytes | memoryview], progress: Callable[[int], None]) -> Iterator[bytes | memoryview]:
    for chunk in data:
        yield chunk
        progress(len(chunk))


def _blocks(at: int, header: bytes) -> Iterator[tuple[int, bytes]]:
    """A header's blocks with their places: a part may end between two of them, never inside one."""
    return ((at + n, header[n : n + tar.BLOCK]) for n in range(0, len(header), tar.BLOCK))


def _stamp(path: Path, mode: int) -> None:
    path.chmod(mode)
    os.utime(path, (tar.MTIME, tar.MTIME))


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
