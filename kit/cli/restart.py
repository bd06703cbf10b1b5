"""`kit restart`: down, then up."""

from __future__ import annotations

import typer

from kit.cli.options import File, Json, Sets


def command(file: File = None, sets: Sets = [], json: Json = False) -> None:  # noqa: B006
    """Stop the service and start it anew, with the smoke test."""
    from kit.config import load
    from kit.serve.down import down
    from kit.serve.up import up

    deployment = load(file, sets)
    down(deployment)
    raise typer.Exit(up(deployment, smoke=True, json=json))
