"""The verbs as one command line: loaded when they are asked for, with help, suggestions and completion."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from kit import __version__
from kit.cli import out
from kit.cli.main import QUICK, VERBS
from kit.errors import Interrupted


class VerbGroup(typer.core.TyperGroup):
    """A group whose verbs are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        here = Path(__file__).parent
        return [verb for verb in VERBS if (here / f"{verb.replace('-', '_')}.py").exists()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in self.list_commands(ctx):
            module = importlib.import_module(f"kit.cli.{cmd_name.replace('-', '_')}")
            app = getattr(module, "app", None)
            if app is None:
                app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
                loose = {"ignore_unknown_options": True, "allow_extra_args": True} if cmd_name in QUICK else {}
                app.command(cmd_name, help=module.command.__doc__, context_settings=loose)(module.command)
            command = typer.main.get_command(app)
            command.name = cmd_name
            self.commands[cmd_name] = command
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The verbs by what they are for, in the order a person meets them."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for verb in self.list_commands(ctx):
            rows.setdefault(VERBS[verb], []).append((verb, self.get_command(ctx, verb).get_short_help_str(80)))
        for panel, verbs in rows.items():
            with formatter.section(panel):
                formatter.write_dl(verbs)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in VERBS:
            for verb in self.list_commands(ctx):  # so that the nearest one can be suggested
                self.get_command(ctx, verb)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=VerbGroup,
    help="Build, check, start, watch and hand over a pinned and patched vLLM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich's takes longer to load than everything else together
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"kit {__version__}")
        raise typer.Exit


@app.callback()
def root(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only results and errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Details, and our own tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    out.set_level(quiet=quiet, verbose=verbose)


def run(args: list[str]) -> object:
    """Run one verb; its exit code or None. Raises KitError, and the option parser's own errors."""
    try:
        return app(args=args, prog_name="kit", standalone_mode=False)
    except typer.Abort:
        raise Interrupted("interrupted", hint="nothing is half done; the same command can be run again") from None
