"""`kit logs`: the engine's log."""

from __future__ import annotations

from typing import Annotated

import typer

from kit.cli import out
from kit.cli.options import File, Sets


def command(
    file: File = None,
    sets: Sets = [],  # noqa: B006
    follow: Annotated[bool, typer.Option("--follow", help="Go on as the log grows.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", "-n", min=0, help="Only the last N lines.")] = None,
) -> None:
    """Print the log of the service's container."""
    import contextlib
    import sys

    from kit.config import load
    from kit.engine import connect
    from kit.errors import MissingError
    from kit.render.container import container_name
    from kit.serve import container as box

    deployment = load(file, sets)
    with contextlib.closing(connect(out.say).client()) as client:
        found = box.find(client, container_name(deployment))
        if found is None:
            raise MissingError(
                f"{deployment.name} has no container", hint=f"logs of earlier starts: {deployment.runs}/*/container.log"
            )
        with box.docker_errors("reading the log"):
            stream = found.logs(stream=True, follow=follow, tail="all" if tail is None else tail)
            for chunk in stream:
                if sys.stdout.isatty():
                    print(out.clean(chunk.decode(errors="replace"), "\t\n\r"), end="", flush=True)
                else:
                    sys.stdout.buffer.write(chunk)
