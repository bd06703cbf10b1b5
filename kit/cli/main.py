"""The `kit` command: finds the verb, runs it, and turns every ending into one exit code."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from typing import NoReturn

from kit.cli import out
from kit.errors import EXIT_GOOD, Interrupted, KitError, MissingError, UsageError

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


_FULL = (errno.ENOSPC, errno.EDQUOT)
_LEVELS = {"-q", "-v", "--quiet", "--verbose"}
# verbs that must answer within a moment: they read their own arguments and load nothing heavy
QUICK = ("diagnose", "probe")


def main(argv: list[str] | None = None) -> NoReturn:
    """Run one verb and leave the process with the exit code of `kit.errors`."""
    args = _hoist(list(sys.argv[1:] if argv is None else argv))
    signal.signal(signal.SIGTERM, _terminated)
    try:
        code = _run(args)
        sys.stdout.flush()
    except KitError as error:
        code = fail(error)
    except KeyboardInterrupt:
        code = fail(Interrupted("interrupted", hint="nothing is half done; the same command can be run again"))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_GOOD
    except Exception as error:  # the last net: every other class ends above
        code = fail(_as_kit_error(error))
    raise SystemExit(code if isinstance(code, int) else EXIT_GOOD)


def _run(args: list[str]) -> object:
    """The verb's exit code, or None."""
    verb = next((a for a in args if not a.startswith("-")), None)
    front = args[: args.index(verb)] if verb else args
    if verb in QUICK and {*front} <= _LEVELS:
        out.set_level(quiet=bool({"-q", "--quiet"} & {*front}), verbose=bool({"-v", "--verbose"} & {*front}))
        module = importlib.import_module(f"kit.cli.{verb}")
        return module.command(args[args.index(verb) + 1 :])
    from kit.cli import verbs

    return verbs.run(args)


def fail(error: KitError) -> int:
    """Print an error as a person should see it; a traceback only with -v."""
    out.error(error)
    if out.verbose and (error.exit_code == 1 or isinstance(error.__cause__, OSError)):
        import traceback

        traceback.print_exc()
    return error.exit_code


def _as_kit_error(error: Exception) -> KitError:
    if hasattr(error, "format_message"):  # the option parser's own errors
        ctx = getattr(error, "ctx", None)
        return UsageError(error.format_message(), hint=f"{ctx.command_path} --help" if ctx else "kit --help")
    if isinstance(error, OSError) and error.strerror and (error.filename or error.errno in _FULL):
        return _of_system(error)
    return KitError(f"{type(error).__name__}: {error}", hint="run the same command with -v and report what it prints")


def _of_system(error: OSError) -> MissingError:
    """What the system refused, where no verb has better words for it: the file's fault, not the kit's."""
    if error.errno in _FULL:
        where = f" while writing {error.filename}" if error.filename else ""
        found = MissingError(f"no space left{where}", hint="df -h; df -i; free some, then run this again")
    else:
        name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
        found = MissingError(f"{name}: {error.strerror}", hint=f"ls -ld {name}; mend it or move it away")
    found.__cause__ = error
    return found


def _hoist(args: list[str]) -> list[str]:
    """Let -q and -v stand anywhere before a bare `--`: people type them last."""
    end = args.index("--") if "--" in args else len(args)
    front = [a for a in args[:end] if a in _LEVELS]
    return front + [a for a in args[:end] if a not in _LEVELS] + args[end:]


def _terminated(signum: int, frame: object) -> None:
    raise KeyboardInterrupt
