"""`kit down`: stop the service."""

from __future__ import annotations

from kit.cli.options import File, Sets


def command(file: File = None, sets: Sets = []) -> None:  # noqa: B006
    """Stop the service and remove its container; caches, logs and reports stay."""
    from kit.config import load
    from kit.serve.down import down

    down(load(file, sets))
