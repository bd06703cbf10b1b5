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
    relock: Annotated[
        bool, typer.Option("--relock", help="If Debian has replaced locked packages, lock the new ones and go on.")
    ] = False,
    locked: Annotated[bool, typer.Option("--locked", help="Refuse (exit 3) unless the lock holds.")] = False,
    json: Json = False,
) -> None:
    """Build the image that kit.yaml needs; nothing to do where the engine has it."""
    import time

    from kit.config import load as load_config
    from kit.engine import connect
    from kit.image.make import make
    from kit.lock import deployment as locks

    began = time.monotonic()
    deployment = load_config(file, sets)
    if locked:
        locks.check(deployment)
    recipe, built = make(deployment, connect(out.say), out.say, again=again, relock=relock, detail=out.detail)
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


@app.command()
def inspect(file: File = None, sets: Sets = [], json: Json = False) -> None:  # noqa: B006
    """Show what the image of kit.yaml is made of, and whether the engine has it."""
    from kit.config import load as load_config
    from kit.engine import connect
    from kit.image.build import find
    from kit.image.load import for_deployment

    recipe = for_deployment(load_config(file, sets))
    built = find(recipe, connect(out.say))
    facts: dict[str, object] = {
        "schema": "kit.image-inspect/1",
        "reference": recipe.reference,
        "input": recipe.digest,
        "built": built is not None,
        "id": built.id if built else None,
        "base": f"{recipe.base.name} ({recipe.base.suite}), {len(recipe.base.debs)} Debian packages",
        "wheels": len(recipe.wheels),
        "epoch": recipe.epoch,
        "labels": dict(recipe.labels),
    }
    if json:
        out.as_json(facts)
        return
    for key, value in facts.items():
        if key not in ("schema", "labels"):
            out.data(f"{key:<10} {'no' if value is None or value is False else value}")
    for key, label in recipe.labels.items():
        out.data(f"{'label':<10} {key}={label}")


@app.command()
def verify(
    file: File = None,
    sets: Sets = [],  # noqa: B006
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build anew without caches and compare.")] = False,
    record: Annotated[bool, typer.Option("--record", help="Write what was found into the lock.")] = False,
    json: Json = False,
) -> None:
    """Read the image back, byte by byte: is it the one of the lock, or of a build made anew? Exit 3 or 6 if not."""
    from kit.config import load as load_config
    from kit.engine import connect
    from kit.errors import GateError, IntegrityError
    from kit.image import verify as proof
    from kit.image.compare import Difference
    from kit.image.load import for_deployment
    from kit.lock import deployment as locks
    from kit.store.store import Store

    deployment = load_config(file, sets)
    recipe, engine = for_deployment(deployment), connect(out.say)
    differ: list[Difference] = []
    if rebuild:
        image, differ = proof.rebuilt(recipe, engine, Store.default(), out.say, out.detail)
    else:
        out.say(f"verify: reading {recipe.reference}")
        image = proof.read_back(recipe.reference, engine)
    found, lock = proof.identity(image), locks.read(deployment)
    known = lock.image.identity if lock and lock.image.input == recipe.digest and not record else None
    wrong = proof.unlike(known, found) if known else []
    only_tree = bool(known and wrong and known.tree == found.tree and not engine.containerd_store)
    if only_tree:  # all that is promised of a build on the classic image store of any version
        wrong = []
    if json:
        out.as_json(
            {
                "schema": "kit.image-verify/1",
                "reference": recipe.reference,
                "verdict": "fail" if differ or wrong else "pass",
                "compared": [*(["rebuild"] if rebuild else []), *(["lock"] if known else [])],
                **found.model_dump(),
                "differences": [row.__dict__ for row in differ],
                "wrong": wrong,
            }
        )
    if differ:
        raise GateError(
            f"a build made anew differs in {len(differ)} places",
            evidence=[f"{row.place}: {row.why} {row.text}" for row in differ[:20]],
        )
    if wrong:
        raise IntegrityError("the image is not the one that was locked", evidence=wrong, hint="kit image build --again")
    if record:
        locks.record(deployment, found)
        out.say(f"verify: recorded in {locks.path_of(deployment)}")
    if not json:
        out.data(f"configuration {found.config}\nfile tree     {found.tree}")
    if rebuild:
        out.say("verify: equal to a build made anew")
    if known:
        how = " in its file tree; this engine's image store packed the layers in another way" if only_tree else ""
        out.say(f"verify: equal to the lock{how}")
    elif not rebuild and not record:
        out.say("verify: whole; the lock knows no identity yet: kit image verify --record")
