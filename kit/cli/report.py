"""`kit report`: one HTML page of the last start, or of a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.cli import out
from kit.cli.options import File, Sets


def command(
    log: Annotated[
        Path | None, typer.Argument(help="A log to report on. Default: the last start of the deployment.")
    ] = None,
    file: File = None,
    sets: Sets = [],  # noqa: B006
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write. Default: report.html of the deployment, or beside LOG."
        ),
    ] = None,
) -> None:
    """Write a self-contained HTML page: stages, diagnosis, acceptance, memory, cards."""
    from kit import files
    from kit.report.collect import of_deployment, of_log
    from kit.report.page import page

    if log is not None:
        contents, target = of_log(log), log.with_name(log.name + ".html")
    else:
        from kit.config import load

        deployment = load(file, sets)
        contents, target = of_deployment(deployment), deployment.state / "report.html"
    files.write(output or target, page(contents))
    out.data(str(output or target))
