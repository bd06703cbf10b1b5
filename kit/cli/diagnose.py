"""kit diagnose: the first cause of a failure, from a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.cli import out
from kit.errors import MissingError


def command(
    log: Annotated[Path, typer.Argument(help="The log file.")],
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> int:
    """Name the first cause in a vLLM log."""
    import sys

    from kit.logs import diagnose_file, render_text, to_json

    try:
        diagnosis = diagnose_file(log)
    except OSError as error:
        raise MissingError(f"cannot read {log}: {error.strerror}", hint=f"ls -l {log}") from None
    if as_json:
        out.as_json(to_json(diagnosis))
    else:
        out.data(render_text(diagnosis, path=str(log), colour=out.colour(sys.stdout)))
    return {"failed": 4, "degraded": 3}.get(diagnosis.verdict, 0)
