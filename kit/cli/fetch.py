"""`kit fetch`: bring every locked input into the store, carry it to a machine without network, tidy up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.cli import out
from kit.cli.options import File, Sets


def command(
    file: File = None,
    sets: Sets = [],  # noqa: B006
    vendor: Annotated[
        Path | None, typer.Option("--vendor", help="Also put every input, and SHA256SUMS, into this folder.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="Take inputs from such a folder; no network.", show_default=False)
    ] = None,
    gc: Annotated[bool, typer.Option("--gc", help="Delete from the store what no list under images/ names.")] = False,
) -> None:
    """Fetch every input of the image by its locked hash into the store; builds then need no network."""
    from kit.store.store import Store

    store = Store.default()
    if gc:
        from kit.image import base, recipes
        from kit.image.load import base as locked_base
        from kit.store.inputs import all_locked

        count, freed = store.collect(item.sha256 for item in all_locked())
        freed += base.forget({locked_base(recipes.read_image(name).base).digest for name in recipes.names()})
        out.say(f"store: {count} files deleted, {freed / 1e6:.0f} MB freed")
        return
    from kit.config import load
    from kit.image.build import fetch
    from kit.image.load import for_deployment
    from kit.store import vendor as vendoring
    from kit.store.inputs import items_of

    recipe = for_deployment(load(file, sets))
    if source:
        taken = vendoring.take(source, store, items_of(recipe))
        out.say(f"store: {taken} files taken from {source}")
    count = fetch(recipe, store, out.say)
    out.say(f"store: {len(items_of(recipe))} inputs of {recipe.reference}, {count} fetched now")
    if vendor:
        size = vendoring.give(vendor, store, items_of(recipe))
        out.say(
            f"vendor: {vendor} holds all of them, {size / 1e6:.0f} MB; check: cd {vendor} && sha256sum -c SHA256SUMS"
        )
