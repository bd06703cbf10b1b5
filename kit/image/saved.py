"""Reads an image as `docker save` streams it: every layer's entries with their hashes; nothing is kept on disk.

Takes what every engine writes: an OCI layout or the older form, layers plain, gzip or zstd.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from kit.errors import IntegrityError
from kit.parse import json_of

_CHUNK = 1 << 20
_TAR_MAGIC = slice(257, 262)


@dataclass(frozen=True)
class Entry:
    """One entry of a layer. `kind` is file, dir, link (symbolic), hardlink, or device; `mtime` in seconds;
    `link` the target of a link; `sha256` of a file's content; `extra` what else the header carries."""

    kind: str
    mode: int
    uid: int
    gid: int
    size: int
    mtime: float
    link: str
    sha256: str
    extra: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Layer:
    """A layer: the digest of its uncompressed tar, and its entries in the order of the tar."""

    diff_id: str
    entries: Mapping[str, Entry]


@dataclass(frozen=True)
class SavedImage:
    """An image: its configuration, that one's digest, its layers from the lowest up."""

    config: dict[str, Any]
    config_digest: str
    layers: tuple[Layer, ...]


def read(chunks: Iterable[bytes]) -> SavedImage:
    """Read the stream of one saved image. Raises IntegrityError when it is not whole or contradicts itself."""
    layers: dict[str, Layer] = {}
    documents: dict[str, bytes] = {}
    links: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=_Source(chunks), mode="r|") as archive:
            for member in archive:
                if member.issym():  # older engines write a layer that occurs twice as a link
                    links[member.name] = _joined(member.name, member.linkname)
                if not member.isreg() or (data := archive.extractfile(member)) is None:
                    continue
                stream = io.BufferedReader(data, _CHUNK)  # type: ignore[type-var]
                head = stream.peek(512)[:512]
                if _is_layer(head):
                    layers[member.name] = _layer(stream, head)
                else:
                    documents[member.name] = stream.read()
        manifest = json_of(documents["manifest.json"])[0]
        config = documents[manifest["Config"]]
        found = tuple(layers[links.get(name, name)] for name in manifest["Layers"])
        image = SavedImage(json_of(config), "sha256:" + hashlib.sha256(config).hexdigest(), found)
        stated = image.config["rootfs"]["diff_ids"]
    except (tarfile.TarError, EOFError, KeyError, IndexError, ValueError, OSError) as error:
        raise IntegrityError(
            f"the engine's copy of the image cannot be read: {type(error).__name__}: {error}",
            hint="kit image build --again",
        ) from None
    if stated != [layer.diff_id for layer in found]:
        wrong = [f"layer {n}: stated {s}, is {r.diff_id}" for n, (s, r) in enumerate(zip(stated, found, strict=False))]
        raise IntegrityError("a layer is not the one that the image's configuration names", evidence=wrong)
    return image


class _Source(io.RawIOBase):
    """A readable file over chunks of bytes."""

    def __init__(self, chunks: Iterable[bytes]):
        self._chunks, self._rest = iter(chunks), b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts, missing = [], size
        while missing:
            if not self._rest:
                self._rest = next(self._chunks, b"")
                if not self._rest:
                    break
            part = self._rest if missing < 0 else self._rest[:missing]
            self._rest = self._rest[len(part) :]
            missing -= len(part) if missing > 0 else 0
            parts.append(part)
        return b"".join(parts)


class _Hashing(io.RawIOBase):
    """A readable file that hashes what passes through."""

    def __init__(self, source: IO[bytes]):
        self._source, self.hash = source, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.hash.update(data)
        return data


def _is_layer(head: bytes) -> bool:
    return head[_TAR_MAGIC] == b"ustar" or head.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")) or head == bytes(512)


def _layer(stream: IO[bytes], head: bytes) -> Layer:
    plain: IO[bytes] = stream
    if head.startswith(b"\x1f\x8b"):
        plain = gzip.GzipFile(fileobj=stream)  # type: ignore[assignment]
    elif head.startswith(b"\x28\xb5\x2f\xfd"):
        import zstandard

        plain = zstandard.ZstdDecompressor().stream_reader(stream)
    hashing = _Hashing(plain)
    entries = dict(_entries(hashing))
    while hashing.read(_CHUNK):  # the padding after the tar's end counts
        pass
    return Layer("sha256:" + hashing.hash.hexdigest(), entries)


def _entries(source: _Hashing) -> Iterator[tuple[str, Entry]]:
    with tarfile.open(fileobj=source, mode="r|") as layer:
        for member in layer:
            content = layer.extractfile(member) if member.isreg() else None
            sha256 = hashlib.file_digest(content, "sha256").hexdigest() if content else ""  # type: ignore[arg-type]
            extra = {k: v for k, v in member.pax_headers.items() if k.startswith(("SCHILY.xattr.", "LIBARCHIVE."))}
            if member.isdev():
                extra["device"] = f"{member.devmajor}:{member.devminor}"
            yield (
                member.name.removeprefix("./").strip("/"),
                Entry(
                    _kind(member),
                    member.mode,
                    member.uid,
                    member.gid,
                    member.size if member.isreg() else 0,
                    member.mtime,
                    member.linkname,
                    sha256,
                    tuple(sorted(extra.items())),
                ),
            )


def _kind(member: tarfile.TarInfo) -> str:
    if member.isdir():
        return "dir"
    if member.issym():
        return "link"
    return "hardlink" if member.islnk() else "file" if member.isreg() else "device"


def _joined(name: str, link: str) -> str:
    import posixpath

    return posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
