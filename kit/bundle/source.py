"""The image to be packed, out of the engine: an edge.

Where the engine keeps its blobs as files that we may read, the layers are read from there; else the
engine writes an archive of the image (`docker save`), which costs time and as much disk again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit import files
from kit.bundle.images import ImageArchive, read_archive
from kit.bundle.parts import Piece
from kit.parse import json_of
from kit.serve.container import docker_errors
from kit.serve.identity import CONTENT, SYSTEM

if TYPE_CHECKING:
    from docker import DockerClient

_MAX_JSON = 8 << 20


@contextlib.contextmanager
def opened(
    client: DockerClient, data_root: Path, reference: str, folder: Path, say: Callable[[str], None]
) -> Iterator[ImageArchive]:
    """The engine's image `reference`, for reading while the block runs. `folder` is scratch space.

    Raises MissingError for an image that is not there or a disk that is too small.
    """
    with docker_errors(f"looking for image {reference}"):
        image = client.images.get(reference)
    for store in (data_root / "containerd" / "daemon" / CONTENT, SYSTEM / CONTENT):
        if (found := from_blobs(store, str(image.id))) is not None:
            yield found
            return
    path = folder / "image.tar"
    try:
        files.need_space(folder, int(image.attrs.get("Size", 0)), f"an archive of {reference}")
        say(f"bundle: the engine writes an archive of {reference}")
        with docker_errors(f"saving image {reference}"), files.replacing(path) as handle:
            for chunk in client.api.get_image(reference, 1 << 20):
                handle.write(chunk)
        yield read_archive(path)
    finally:
        path.unlink(missing_ok=True)


def from_blobs(store: Path, digest: str) -> ImageArchive | None:
    """The image whose manifest (or index of one) has this digest, from a folder of blobs; None when it is not whole."""
    manifest = _json(store, digest)
    for described in (manifest or {}).get("manifests", []):
        if described.get("platform", {}).get("os") == "linux":  # an attestation has os "unknown"
            manifest = _json(store, described["digest"])
            break
    if manifest is None or "config" not in manifest:
        return None
    config = _blob(store, manifest["config"]["digest"])
    layers = [_blob(store, layer["digest"]) for layer in manifest["layers"]]
    if config is None or any(layer is None for layer in layers):
        return None
    pieces = tuple(Piece(layer, 0, layer.stat().st_size) for layer in layers if layer is not None)
    return ImageArchive(store, config.read_bytes(), pieces)


def _json(store: Path, digest: str) -> dict[str, Any] | None:
    path = _blob(store, digest)
    if path is None or path.stat().st_size > _MAX_JSON:
        return None
    value = json_of(path.read_bytes())
    return value if isinstance(value, dict) else None


def _blob(store: Path, digest: str) -> Path | None:
    """The file of a blob, if we may read it."""
    path = store / digest.removeprefix("sha256:")
    try:
        with path.open("rb"):
            return path
    except OSError:
        return None
