"""`kit render`: the files that run a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.cli import out
from kit.cli.options import File, Sets


def command(
    file: File = None,
    sets: Sets = [],  # noqa: B006
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write to.", show_default=False)
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 3 when a file is stale.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Write nothing; show what would change.")] = False,
) -> None:
    """Render Dockerfile, compose file, launch script, service unit and the rest from kit.yaml."""
    from kit.config import load
    from kit.errors import GateError
    from kit.render import render
    from kit.serve.image import image_name

    deployment = load(file, sets)
    root = output or deployment.rendered
    rendered = render(deployment, image_name(deployment))
    if diff:
        out.data(out.clean(rendered.diff(root), "\t\n").rstrip("\n"))
    if check:
        stale = [f"{root / name}: {state}" for name, state in rendered.compare(root)]
        if stale:
            raise GateError(f"{len(stale)} rendered files are not as kit.yaml says", evidence=stale, hint="kit render")
        out.say(f"{root}: up to date")
    elif not diff:
        changed = rendered.write(root)
        out.say(f"{root}: {len(changed)} files written, {len(rendered.files) - len(changed)} up to date")
