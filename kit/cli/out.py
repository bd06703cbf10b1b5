"""What the kit prints: data to stdout, talk to stderr, nothing raw from outside.

Text from logs, model names and YAML may hold control characters; `clean` makes them visible
before they reach a terminal, and rich markup is never read from such text.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from kit.errors import KitError

quiet = False
verbose = False


def set_level(*, quiet: bool, verbose: bool) -> None:
    """Set how much is said for this process."""
    globals().update(quiet=quiet, verbose=verbose)


def clean(text: str, keep: str = "\t") -> str:
    """`text` with control and bidirectional-override characters shown as \\xNN or \\uNNNN."""
    return "".join(c if c in keep or _plain(c) else _escape(c) for c in text)


def _plain(char: str) -> bool:
    code = ord(char)
    return not (
        code < 32
        or 127 <= code < 160
        or 0x202A <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
        or 0xD800 <= code <= 0xDFFF
    )


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def data(text: str, *, coloured: bool = False) -> None:
    """A result, to stdout; cleaned, unless it is `coloured` by the kit and what it quotes was cleaned before."""
    print(text if coloured else clean(text, "\t\n"))


def as_json(value: Any) -> None:
    """A result for programs, to stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=True))


def say(text: str) -> None:
    """Talk, to stderr; silent with -q."""
    if not quiet:
        print(clean(text, "\t\n"), file=sys.stderr, flush=True)


def detail(text: str) -> None:
    """Talk that only -v shows."""
    if verbose:
        say(text)


def error(problem: KitError) -> None:
    """An error: what happened, the evidence, what to do next."""
    bold, red, dim, end = ("\x1b[1m", "\x1b[31m", "\x1b[2m", "\x1b[0m") if colour(sys.stderr) else ("",) * 4
    print(f"{red}{bold}error:{end} {clean(problem.message, chr(9) + chr(10))}", file=sys.stderr)
    for line in problem.evidence:
        print(f"  {dim}{clean(line)}{end}", file=sys.stderr)
    if problem.hint:
        print(f"{bold}next:{end}  {clean(problem.hint, chr(9) + chr(10))}", file=sys.stderr)
    sys.stderr.flush()


def colour(stream: Any) -> bool:
    """Whether colour is welcome on this stream (https://no-color.org; a dumb terminal; a pipe)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width(stream: Any) -> int:
    """Columns for text on this stream: the terminal's, as far as lines stay readable; 100 elsewhere."""
    import shutil

    return max(40, min(120, shutil.get_terminal_size((100, 40)).columns)) if stream.isatty() else 100


def console(*, stderr: bool = False) -> Console:
    """A rich console that reads no markup from text and falls back to 100 columns off a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        no_color=not colour(stream),
        width=None if stream.isatty() else 100,
    )
