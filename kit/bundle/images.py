"""Image archives: read what `docker save` or a build wrote, and write it again in one canonical form.

The canonical archive holds uncompressed layers, so that its bytes depend on the image alone, not on
the gzip of the engine that stored it, and zstd compresses it as a whole. It is an OCI layout and a
docker-archive at once: Docker with either image store loads it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from kit.bundle import tar
from kit.bundle.parts import CHUNK, Piece, Reader, chunks, window
from kit.errors import IntegrityError, MissingError, UsageError
from kit.parse import json_of

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_OCI = "application/vnd.oci.image."


@dataclass(frozen=True)
class ImageArchive:
    """An image in an archive on disk: its configuration's bytes and its layers' blobs, lowest first."""

    path: Path
    config: bytes
    blobs: tuple[Piece, ...]

    @property
    def config_digest(self) -> str:
        return _digest(self.config)

    @property
    def created(self) -> int:
        """The image's date, seconds: SOURCE_DATE_EPOCH of a reproducible build."""
        text = str(json_of(self.config).get("created", ""))[:19]
        return int(datetime.fromisoformat(f"{text}+00:00").timestamp()) if text else 0

    @cached_property
    def diff_ids(self) -> tuple[str, ...]:
        """Digests of the uncompressed layers, as the configuration states them."""
        return tuple(json_of(self.config)["rootfs"]["diff_ids"])

    def is_plain(self, number: int) -> bool:
        """Whether a layer lies uncompressed in the archive."""
        return not self._magic(number).startswith((_GZIP, _ZSTD))

    def layer(self, number: int) -> BinaryIO:
        """The uncompressed tar of a layer, as a stream."""
        raw, magic = io.BufferedReader(Reader([self.blobs[number]]), CHUNK), self._magic(number)
        if magic.startswith(_GZIP):
            return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
        if magic.startswith(_ZSTD):
            import zstandard

            return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw), CHUNK)
        return raw

    def _magic(self, number: int) -> bytes:
        with Reader(window([self.blobs[number]], 0, 4)) as source:
            return source.readall()


@dataclass(frozen=True)
class Canonical:
    """What the canonical archive of an image holds besides its layers, and how large it gets."""

    reference: str
    image: ImageArchive
    sizes: tuple[int, ...]

    @cached_property
    def manifest(self) -> bytes:
        """The OCI manifest. Its digest is the image's ID in a containerd store."""
        layers = [
            {"mediaType": _OCI + "layer.v1.tar", "digest": digest, "size": size}
            for digest, size in zip(self.image.diff_ids, self.sizes, strict=True)
        ]
        config = {"mediaType": _OCI + "config.v1+json", "digest": self.image.config_digest}
        config |= {"size": len(self.image.config)}  # type: ignore[dict-item]
        return _json({"schemaVersion": 2, "mediaType": _OCI + "manifest.v1+json", "config": config, "layers": layers})

    @property
    def manifest_digest(self) -> str:
        return _digest(self.manifest)

    def heads(self) -> list[tuple[str, bytes]]:
        """The small files, in the order in which they are written."""
        name, config = full_name(self.reference), self.image.config_digest
        described = {"mediaType": _OCI + "manifest.v1+json", "digest": self.manifest_digest, "size": len(self.manifest)}
        described["annotations"] = {
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name.rpartition(":")[2],
        }
        index = {"schemaVersion": 2, "mediaType": _OCI + "index.v1+json", "manifests": [described]}
        old = {"Config": _blob(config), "RepoTags": [self.reference], "Layers": [_blob(d) for d in self.image.diff_ids]}
        return [
            ("oci-layout", _json({"imageLayoutVersion": "1.0.0"})),
            ("index.json", _json(index)),
            ("manifest.json", _json([old])),
            (_blob(config), self.image.config),
            (_blob(self.manifest_digest), self.manifest),
        ]

    @property
    def size(self) -> int:
        """Bytes of the whole archive."""
        layers = dict(zip(self.image.diff_ids, self.sizes, strict=True))
        files = [len(data) for _, data in self.heads()] + list(layers.values())
        return sum(tar.BLOCK + size + tar.padding(size) for size in files) + len(tar.END)

    def stream(self, good: int = 1) -> Iterator[bytes | memoryview]:
        """The archive's bytes, in chunks that are good until the `good`th after them is asked for.

        Raises IntegrityError when a layer is not the one that the configuration names.
        """
        for name, data in self.heads():
            yield from (tar.header(name, len(data), executable=False), data, bytes(tar.padding(len(data))))
        written = set()
        for number, digest in enumerate(self.image.diff_ids):
            if digest in written:  # one empty layer may stand twice
                continue
            written.add(digest)
            yield tar.header(_blob(digest), self.sizes[number], executable=False)
            found = hashlib.sha256()
            with self.image.layer(number) as source:
                for chunk in chunks(source, good):
                    found.update(chunk)
                    yield chunk
            if f"sha256:{found.hexdigest()}" != digest:
                raise IntegrityError(
                    f"layer {number} of the image archive is not the one that its configuration names",
                    evidence=[f"named: {digest}", f"found: sha256:{found.hexdigest()}"],
                    hint="build the image again: kit image build",
                )
            yield bytes(tar.padding(self.sizes[number]))
        yield tar.END


def full_name(reference: str) -> str:
    """A reference as containerd writes it: with registry and tag."""
    first, slash, _ = reference.partition("/")
    if not slash:
        reference = f"docker.io/library/{reference}"
    elif not ("." in first or ":" in first or first == "localhost"):
        reference = f"docker.io/{reference}"
    return reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"


def canonical(image: ImageArchive, reference: str) -> Canonical:
    """Measure the layers of an image; compressed ones are read once for it."""
    return Canonical(reference, image, tuple(_layer_size(image, number) for number in range(len(image.blobs))))


def read_archive(path: Path) -> ImageArchive:
    """Find the parts of an archive of one image, OCI layout or docker-archive.

    Raises MissingError (no such file), UsageError (not an archive of one image), IntegrityError (damaged).
    """
    try:
        with tarfile.open(path, "r:") as archive:
            members = {m.name.removeprefix("./"): m for m in archive if m.isreg()}
            return _read(path, archive, members)
    except OSError as error:
        raise MissingError(f"cannot read the image archive {path}: {error}", hint="kit image build") from None
    except (tarfile.TarError, KeyError, IndexError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is not an archive of one image: {error}", hint="docker save IMAGE -o FILE") from None


def _read(path: Path, archive: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> ImageArchive:
    def content(name: str, digest: str | None = None) -> bytes:
        handle = archive.extractfile(members[name])
        assert handle is not None  # regular files only
        data = handle.read()
        if digest is not None and _digest(data) != digest:
            raise IntegrityError(f"{name} in {path} is damaged", evidence=[f"found: {_digest(data)}"])
        return data

    if "manifest.json" in members:
        (image,) = json_of(content("manifest.json"))
        config, blobs = content(image["Config"]), image["Layers"]
    else:
        (described,) = json_of(content("index.json"))["manifests"]
        manifest = json_of(content(_blob(described["digest"]), described["digest"]))
        config = content(_blob(manifest["config"]["digest"]), manifest["config"]["digest"])
        blobs = [_blob(layer["digest"]) for layer in manifest["layers"]]
    if len(blobs) != len(json_of(config)["rootfs"]["diff_ids"]):
        raise ValueError("its configuration names another number of layers")
    pieces = (Piece(path, members[name].offset_data, members[name].size) for name in blobs)
    return ImageArchive(path, config, tuple(pieces))


def _layer_size(image: ImageArchive, number: int) -> int:
    if image.is_plain(number):
        return image.blobs[number].length
    with image.layer(number) as source:
        size = 0
        while chunk := source.read(CHUNK):
            size += len(chunk)
        return size


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _blob(digest: str) -> str:
    return "blobs/sha256/" + digest.removeprefix("sha256:")
