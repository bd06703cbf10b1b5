"""`kit lock`: choose and pin every input of a deployment, by hash, in one file to review."""

from __future__ import annotations

from typing import Annotated

import typer

from kit.cli import out
from kit.cli.options import File, Json, Sets


def command(
    file: File = None,
    sets: Sets = [],  # noqa: B006
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 3 if the lock does not hold.")] = False,
    upgrade: Annotated[
        list[str], typer.Option("--upgrade", help="Move this package to its newest version (debian: all of Debian's).")
    ] = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Pin every input of a deployment by hash: Debian packages, wheels, patches, templates, models."""
    from kit.config import load
    from kit.errors import UsageError
    from kit.lock import deployment as locks

    if check and upgrade:
        raise UsageError(
            "--check changes nothing, --upgrade does", hint="kit lock --upgrade NAME, then kit lock --check"
        )
    deployment = load(file, sets)
    if check:
        locks.check(deployment)
        changes: list[str] = []
    else:
        changes = locks.update(deployment, upgrade, out.say)
    path = locks.path_of(deployment)
    if json:
        out.as_json({"schema": "kit.lock-changes/1", "file": str(path), "changes": changes})
        return
    for line in changes:
        out.data(out.clean(line))
    out.say(f"lock: {path} {'holds' if not changes else 'written'}")
