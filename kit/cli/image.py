"""`kit image`: build, list, inspect and verify the image of a deployment."""

from __future__ import annotations

from typing import Annotated

import typer

from kit.cli import out
from kit.cli.options import File, Json, Sets

app = typer.Typer(help="Build the image of a deployment; list, inspect and verify images.", no_args_is_help=True)


@app.command()
def build(
    file: File = None,
    sets: Sets = [],  # noqa: B006
    again: Annotated[
        bool, typer.Option("--again", help="Build even if it is there, and without build caches.")
    ] = False,
    json: Json = False,
) -> None:
    """Build the image that kit.yaml needs; nothing to do where the engine has it."""
    import time

    from kit.config import load as load_config
    from kit.engine import connect
    from kit.image.build import ensure
    from kit.image.load import for_deployment
    from kit.store.store import Store

    began = time.monotonic()
    recipe = for_deployment(load_config(file, sets))
    built = ensure(recipe, connect(out.say), Store.default(), out.say, again=again, detail=out.detail)
    if json:
        facts = {"reference": built.reference, "id": built.id, "diff_ids": list(built.diff_ids), "fresh": built.fresh}
        out.as_json({"schema": "kit.image/1", **facts, "input": recipe.digest})
        return
    how = f"built in {time.monotonic() - began:.0f} s" if built.fresh else "is there; nothing to do"
    out.say(f"image: {built.reference} {how}")


@app.command("list")
def list_(json: Json = False) -> None:
    """List the image recipes, and the images that the engine has of them."""
    import contextlib

    from kit.engine import connect
    from kit.image.recipe import INPUT_LABEL, PATCHES_LABEL, REPOSITORY
    from kit.image.recipes import names, read_image

    with contextlib.closing(connect(out.say).client()) as client:
        images = client.images.list(filters={"label": INPUT_LABEL})
    rows = [
        {
            "reference": tag,
            "id": image.id,
            "patches": image.labels.get(PATCHES_LABEL, ""),
            "size": image.attrs.get("Size", 0),
        }
        for image in images
        for tag in image.tags
        if tag.startswith(f"{REPOSITORY}/")
    ]
    recipes = {name: sorted(read_image(name).versions) for name in names()}
    if json:
        out.as_json({"schema": "kit.image-list/1", "recipes": recipes, "images": rows})
        return
    for name, versions in recipes.items():
        out.data(f"recipe images/{name}: vLLM {', '.join(versions)}")
    for row in sorted(rows, key=lambda row: str(row["reference"])):
        out.data(f"{row['reference']}  {row['size'] / 1e9:.1f} GB  patches: {row['patches'] or 'none'}")
    if not rows:
        out.say("no image is built yet; next: kit image build")
