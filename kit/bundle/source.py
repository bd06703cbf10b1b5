"""The image to be packed, out of the engine: an edge."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kit import files
from kit.serve.container import docker_errors

if TYPE_CHECKING:
    from docker import DockerClient


@contextlib.contextmanager
def saved(client: DockerClient, reference: str, folder: Path, say: Callable[[str], None]) -> Iterator[Path]:
    """The engine's archive of an image, in a file that is gone afterwards. Raises MissingError without space."""
    path = folder / "image.tar"
    say(f"bundle: reading image {reference} from the engine")
    try:
        with docker_errors(f"saving image {reference}"), files.replacing(path) as handle:
            for chunk in client.api.get_image(reference, 1 << 20):
                handle.write(chunk)
        yield path
    finally:
        path.unlink(missing_ok=True)
