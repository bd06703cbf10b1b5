"""`kit up`: start, watch, smoke-test; on failure, the diagnosis."""

from __future__ import annotations

from typing import Annotated

import typer

from kit.cli.options import File, Json, Sets


def command(
    file: File = None,
    sets: Sets = [],  # noqa: B006
    doctor: Annotated[bool, typer.Option(help="Run the checks of `kit doctor` before anything is started.")] = True,
    smoke: Annotated[bool, typer.Option(help="Run the smoke test when the service is ready.")] = True,
    json: Json = False,
    events: Annotated[
        bool, typer.Option("--events", help="Tell the start as JSON lines; the last is the result.")
    ] = False,
) -> None:
    """Start the service, wait until it is ready, run the smoke test."""
    from kit.config import load
    from kit.serve.up import up

    raise typer.Exit(up(load(file, sets), smoke=smoke, json=json, events=events, doctor=doctor))
