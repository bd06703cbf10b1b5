"""`kit doctor`: what will not work, said before the load."""

from __future__ import annotations

from typing import Annotated

import typer

from kit.cli import out
from kit.cli.options import File, Json, Sets


def command(
    file: File = None,
    sets: Sets = [],  # noqa: B006
    json: Json = False,
    select: Annotated[
        list[str], typer.Option("--select", help="Only these checks or families: --select gpu,link", show_default=False)
    ] = [],  # noqa: B006
    ignore: Annotated[
        list[str], typer.Option("--ignore", help="Not these checks or families.", show_default=False)
    ] = [],  # noqa: B006
    list_: Annotated[bool, typer.Option("--list", help="Name every check and end.")] = False,
    accept: Annotated[
        bool | None,
        typer.Option(
            "--accept/--no-accept", help="Take the advice for this box into the rendered files, or out again."
        ),
    ] = None,
    limit: Annotated[
        float,
        typer.Option(min=0.1, envvar="KIT_NVML_LIMIT", help="Seconds a driver call may take (the first: 6 times)."),
    ] = 5.0,
) -> None:
    """Check machine, engine, GPUs, links, model, drafter and image; exit 3 when a check fails."""
    from kit.checks import registry

    wanted = registry.chosen(select, ignore)
    if list_:
        for name in wanted:
            out.data(f"{name:24}{registry.checks()[name].title}")
        return
    from kit.checks.doctor import doctor
    from kit.config import load

    raise typer.Exit(doctor(load(file, sets), wanted, json=json, accept=accept, call_limit_s=limit))
