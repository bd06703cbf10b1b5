"""Proves what an image is: read back from the engine, against the lock, or against a build made anew."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kit.engine import Engine
from kit.errors import MissingError
from kit.image.base import base_tar
from kit.image.build import buildx, fetch, find, output, staged
from kit.image.compare import Difference, differences, tree_digest
from kit.image.progress import Say, silent
from kit.image.recipe import Recipe
from kit.image.saved import SavedImage, read
from kit.lock.document import Identity
from kit.store.store import Store


def read_back(reference: str, engine: Engine) -> SavedImage:
    """The engine's image, every byte of it read and checked against its own digests."""
    from docker.errors import APIError, ImageNotFound

    with contextlib.closing(engine.client(timeout=600)) as client:
        try:
            return read(client.api.get_image(reference))
        except ImageNotFound:
            raise MissingError(f"the engine has no image {reference}", hint="kit image build") from None
        except APIError as error:
            raise MissingError(f"the engine cannot save {reference}: {error.explanation or error}") from None


def identity(image: SavedImage) -> Identity:
    """The identity of an image that was read."""
    layers = [layer.diff_id for layer in image.layers]
    return Identity(config=image.config_digest, layers=layers, tree=tree_digest(image))


def unlike(locked: Identity, found: Identity) -> list[str]:
    """What of a locked identity does not hold, in words; only what both sides know is compared."""
    wrong = []
    if locked.tree and found.tree and locked.tree != found.tree:
        wrong.append(f"file tree: locked {locked.tree}, found {found.tree}")
    if locked.config and found.config and locked.config != found.config:
        wrong.append(f"configuration: locked {locked.config}, found {found.config}")
    if locked.layers and found.layers and len(locked.layers) != len(found.layers):
        wrong.append(f"layers: locked {len(locked.layers)}, found {len(found.layers)}")
    elif locked.layers and found.layers:
        pairs = enumerate(zip(locked.layers, found.layers, strict=True))
        wrong += [f"layer {n}: locked {a}, found {b}" for n, (a, b) in pairs if a != b]
    return wrong


def rebuilt(
    recipe: Recipe, engine: Engine, store: Store, say: Say, detail: Say = silent
) -> tuple[SavedImage, list[Difference]]:
    """Make the base and the image anew, without any cache; returns the new image and how the engine's differs.

    The new image gets a name of its own, which is gone afterwards.
    """
    if find(recipe, engine) is None:
        raise MissingError(f"the engine has no image {recipe.reference}", hint="kit image build")
    other = f"{recipe.reference}-again"
    with _temporary(other, engine):
        fetch(recipe, store, say)
        base = base_tar(recipe.base, store, say, again=True)
        with staged(recipe, base, store) as folder:
            buildx(recipe, engine, folder, output(other, engine), say, no_cache=True, detail=detail)
        say("verify: reading both images")
        new = read_back(other, engine)
    return new, list(differences(read_back(recipe.reference, engine), new))


@contextlib.contextmanager
def _temporary(reference: str, engine: Engine) -> Iterator[None]:
    from docker.errors import ImageNotFound

    try:
        yield
    finally:
        with contextlib.closing(engine.client()) as client, contextlib.suppress(ImageNotFound):
            client.images.remove(reference)
