"""`kit watch`: a start or a running service on a screen that refreshes."""

from __future__ import annotations

from typing import Annotated

import typer

from kit.cli.options import File, Sets


def command(
    file: File = None,
    sets: Sets = [],  # noqa: B006
    every: Annotated[float, typer.Option("--every", min=0.5, help="Seconds between two looks.")] = 2.0,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after this many looks.")] = None,
) -> None:
    """Show what the service does, until Ctrl-C: state, load, acceptance, latency, GPU memory; a start by its stages."""
    from kit.config import load
    from kit.serve.screen import watch

    raise typer.Exit(watch(load(file, sets), every=every, count=count))
