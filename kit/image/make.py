"""From a deployment to its image in the engine: what `kit image build` and the demo call."""

from __future__ import annotations

from kit.config import Deployment
from kit.engine import Engine
from kit.image.build import Built, ensure
from kit.image.load import for_deployment
from kit.image.progress import Say, silent
from kit.image.recipe import Recipe
from kit.lock import deployment as locks
from kit.lock.images import ALL_DEBIAN
from kit.store.fetch import ArchiveMovedOn
from kit.store.store import Store


def make(
    deployment: Deployment,
    engine: Engine,
    say: Say,
    *,
    again: bool = False,
    relock: bool = False,
    detail: Say = silent,
) -> tuple[Recipe, Built]:
    """The image of `deployment`, built if the engine lacks it; raises like `ensure`.

    With `relock`, Debian packages that the archive has replaced since they were locked are locked
    anew and the build goes on; the change stands in images/ and in the lock, and is said.
    """
    store = Store.default()
    recipe = for_deployment(deployment)
    try:
        return recipe, ensure(recipe, engine, store, say, again=again, detail=detail)
    except ArchiveMovedOn as error:
        if not relock:
            raise
        say(f"image: {error.message}; locking what it has now")
    for change in locks.update(deployment, [ALL_DEBIAN], say):
        say(f"lock: {change}")
    recipe = for_deployment(deployment)
    return recipe, ensure(recipe, engine, store, say, again=again, detail=detail)
