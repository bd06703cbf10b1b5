"""Options that several verbs share, so that they are spelled and read in one way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[
    Path | None,
    typer.Option(
        "--file", "-f", help="The deployment's kit.yaml. Default: KIT_FILE, then ./kit.yaml.", show_default=False
    ),
]
Sets = Annotated[
    list[str],
    typer.Option("--set", help="Override a value: --set server.port=9000. May be repeated.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def group(text: str) -> typer.Typer:
    """A verb with sub-verbs."""
    return typer.Typer(help=text, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
