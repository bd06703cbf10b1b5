"""`kit support`: one archive with what a colleague needs to help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.cli import out
from kit.cli.options import File, Json, Sets


def command(
    file: File = None,
    sets: Sets = [],  # noqa: B006
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The archive to write. Default: support-NAME-TIME.tar.gz here."),
    ] = None,
    redact: Annotated[
        list[str], typer.Option("--redact", metavar="REGEX", help="Redact also what this finds. May be repeated.")
    ] = [],  # noqa: B006
    plain: Annotated[
        bool, typer.Option("--no-redaction", help="Redact nothing: keys, names and addresses go into the archive.")
    ] = False,
    json: Json = False,
) -> None:
    """Pack versions, settings, checks, container state, logs and reports into one redacted archive."""
    from collections import Counter
    from datetime import UTC, datetime

    from kit.config import load
    from kit.support import known
    from kit.support.archive import write
    from kit.support.collect import gather
    from kit.support.redact import Redactor, further, rules

    own = further(redact)
    deployment = load(file, sets)
    path = output or Path(f"support-{deployment.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
    redactor = None if plain else Redactor([*known.rules_of(deployment), *rules(), *own])
    notes: list[str] = []
    done = write(path, gather(deployment, notes), redactor, notes)
    counts = Counter(redaction.rule for redaction in done)
    if json:
        out.as_json({"schema": "kit.support/1", "file": str(path), "redacted": dict(counts), "notes": notes})
        return
    for note in notes:
        out.say(f"note: {note}")
    if plain:
        out.say("nothing was redacted: look through it before you send it")
    else:
        found = ", ".join(f"{count} {rule}" for rule, count in counts.most_common()) or "nothing"
        out.say(f"redacted: {found}; redactions.json inside says where")
    out.data(str(path))
