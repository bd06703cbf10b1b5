"""`kit smoke`: fixed prompts, acceptance from the counters, gates."""

from __future__ import annotations

import typer

from kit.cli.options import File, Json, Sets


def command(file: File = None, sets: Sets = [], json: Json = False) -> None:  # noqa: B006
    """Test the running service: acceptance, counters, gates. Exit 0 pass, 3 fail, 4 no answer."""
    from kit.config import load
    from kit.serve.up import smoke_running

    raise typer.Exit(smoke_running(load(file, sets), json=json))
