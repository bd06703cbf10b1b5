"""`kit status`: is it alive, ready, and accepting drafts."""

from __future__ import annotations

import typer

from kit.cli import out
from kit.cli.options import File, Json, Sets


def command(file: File = None, sets: Sets = [], json: Json = False) -> None:  # noqa: B006
    """Say whether the service is ready. Exit 0 ready, 3 not ready, 4 dead, 5 no container."""
    import contextlib

    from kit.config import load
    from kit.engine import connect
    from kit.serve.api import api_of
    from kit.serve.show import rows
    from kit.serve.status import EXIT, status

    deployment = load(file, sets)
    with contextlib.closing(connect(out.say).client()) as client:
        now = status(deployment, client, api_of(deployment))
    if json:
        out.as_json(now.to_json())
        raise typer.Exit(EXIT[now.verdict])
    for name, value in rows(now):
        out.data(f"{name:<14}{out.clean(value)}")
    for text in now.warnings:
        out.say(f"warning: {text}")
    if now.verdict == "dead":
        out.say("next:  kit diagnose")
    raise typer.Exit(EXIT[now.verdict])
