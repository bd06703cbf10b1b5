"""`kit status`: is it alive, ready, and accepting drafts."""

from __future__ import annotations

import typer

from kit.cli import out
from kit.cli.options import File, Json, Sets


def command(file: File = None, sets: Sets = [], json: Json = False) -> None:  # noqa: B006
    """Say whether the service is ready. Exit 0 ready, 3 not ready, 4 dead, 5 no container."""
    import contextlib

    from kit.config import load
    from kit.engine import connect
    from kit.serve.api import api_of
    from kit.serve.status import EXIT, status

    deployment = load(file, sets)
    with contextlib.closing(connect(out.say).client()) as client:
        now = status(deployment, client, api_of(deployment))
    if json:
        out.as_json(now.to_json())
        raise typer.Exit(EXIT[now.verdict])
    rows = [("state", now.verdict + (f": {now.why}" if now.why else ""))]
    if now.container:
        rows.append(("container", f"{now.container.status}, restarts {now.container.restarts}"))
        if now.container.health_output and now.container.health == "unhealthy":
            rows.append(("health check", now.container.health_output))
    if now.image:
        rows.append(("image", now.image))
    if now.uptime_s is not None:
        rows.append(("up for", f"{now.uptime_s:.0f} s"))
    if now.served:
        rows.append(("serves", ", ".join(now.served)))
    if now.counted:
        rows.append(("requests", str(now.counted.requests)))
        if now.counted.speculating:
            rate, length = now.counted.acceptance_rate, now.counted.mean_acceptance_length
            rows.append(("acceptance", f"{rate:.1%} of draft tokens, mean length {length:.2f}"))
    for name, value in rows:
        out.data(f"{name:<14}{out.clean(value)}")
    if now.verdict == "dead":
        out.say("next:  kit diagnose")
    raise typer.Exit(EXIT[now.verdict])
