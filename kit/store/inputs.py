"""Which files of the store an image needs, and which any image does."""

from __future__ import annotations

from kit.image import recipes
from kit.image.recipe import Recipe
from kit.store.fetch import deb_item, wheel_item
from kit.store.store import Item


def items_of(recipe: Recipe) -> list[Item]:
    """Every fetched input of one image."""
    return [*(deb_item(d) for d in recipe.base.debs), *(wheel_item(w) for w in recipe.wheels)]


def all_locked() -> list[Item]:
    """Every input that a list under images/ names."""
    found: list[Item] = []
    for name in recipes.names():
        spec = recipes.read_image(name)
        if recipes.debian_lock(spec.base).exists():
            found += [deb_item(d) for d in recipes.locked_debs(spec.base)]
        for version in spec.versions:
            if recipes.wheels_lock(name, version).exists():
                found += [wheel_item(w) for w in recipes.locked_wheels(name, version)]
    return found
