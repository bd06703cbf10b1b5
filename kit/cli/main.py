"""The `kit` command: finds the verb, runs it, and turns every ending into one exit code."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.core
import typer.main

from kit import __version__
from kit.cli import out
from kit.errors import EXIT_GOOD, Interrupted, KitError, UsageError

# verb -> help panel, in the order a person meets them; each is kit/cli/<verb with _>.py
VERBS = {
    "config": "Prepare",
    "reference": "Prepare",
    "lock": "Prepare",
    "fetch": "Prepare",
    "render": "Prepare",
    "patches": "Prepare",
    "image": "Prepare",
    "engine": "Prepare",
    "probe": "Check before the load",
    "doctor": "Check before the load",
    "plan": "Check before the load",
    "model": "Check before the load",
    "rehearse": "Check before the load",
    "up": "Run",
    "down": "Run",
    "restart": "Run",
    "status": "Run",
    "watch": "Run",
    "logs": "Run",
    "smoke": "Run",
    "diagnose": "When it fails",
    "report": "When it fails",
    "support": "When it fails",
    "bundle": "Hand over",
}


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
                app.command(cmd_name, help=module.command.__doc__)(module.command)
            command = typer.main.get_command(app)
            command.name = cmd_name
            command.rich_help_panel = VERBS[cmd_name]  # type: ignore[attr-defined]
            self.commands[cmd_name] = command
        return self.commands.get(cmd_name)

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


def main(argv: list[str] | None = None) -> NoReturn:
    """Run one verb and leave the process with the exit code of `kit.errors`."""
    args = _hoist(list(sys.argv[1:] if argv is None else argv))
    signal.signal(signal.SIGTERM, _terminated)
    try:
        code = app(args=args, prog_name="kit", standalone_mode=False)
        sys.stdout.flush()
    except KitError as error:
        code = fail(error)
    except (KeyboardInterrupt, typer.Abort):
        code = fail(Interrupted("interrupted", hint="nothing is half done; the same command can be run again"))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_GOOD
    except Exception as error:  # the last net: every other class ends above
        code = fail(_as_kit_error(error))
    raise SystemExit(code if isinstance(code, int) else EXIT_GOOD)


def fail(error: KitError) -> int:
    """Print an error as a person should see it; a traceback only with -v."""
    out.error(error)
    if out.verbose and error.exit_code == 1:
        import traceback

        traceback.print_exc()
    return error.exit_code


def _as_kit_error(error: Exception) -> KitError:
    if hasattr(error, "format_message"):  # the option parser's own errors
        ctx = getattr(error, "ctx", None)
        return UsageError(error.format_message(), hint=f"{ctx.command_path} --help" if ctx else "kit --help")
    return KitError(f"{type(error).__name__}: {error}", hint="run the same command with -v and report what it prints")


def _hoist(args: list[str]) -> list[str]:
    """Let -q and -v stand anywhere before a bare `--`: people type them last."""
    end = args.index("--") if "--" in args else len(args)
    wanted = {"-q", "-v", "--quiet", "--verbose"}
    front = [a for a in args[:end] if a in wanted]
    return front + [a for a in args[:end] if a not in wanted] + args[end:]


def _terminated(signum: int, frame: object) -> None:
    raise KeyboardInterrupt
