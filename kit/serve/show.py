"""The status of a service as rows of name and value; pure."""

from __future__ import annotations

from collections.abc import Iterator

from kit.serve.status import Status
from kit.watch.words import duration


def rows(now: Status) -> Iterator[tuple[str, str]]:
    """What `kit status` prints, one row a fact; what is not known is left out."""
    yield "state", now.verdict + (f": {now.why}" if now.why else "")
    if now.container:
        yield "container", f"{now.container.status}, restarts {now.container.restarts}"
        if now.container.health_output and now.container.health == "unhealthy":
            yield "health check", now.container.health_output
    if now.version:
        patches = f", patches {', '.join(now.patches)}" if now.patches else ""
        yield "vLLM", now.version + patches
    if now.image:
        locked = {True: ", as locked", False: ", NOT as locked", None: ""}[now.as_locked]
        yield "image", now.image + locked
    if now.uptime_s is not None:
        yield "up for", duration(now.uptime_s)
    if now.served:
        yield "serves", ", ".join(now.served)
    if now.counted:
        load = now.gauges
        busy = f", {load.running} running, {load.waiting} waiting" if load and load.running is not None else ""
        yield "requests", f"{now.counted.requests} done{busy}"
    if now.gauges and now.gauges.kv_use is not None:
        yield "KV cache", f"{now.gauges.kv_use:.1%} in use"
    if now.counted and now.counted.speculating:
        rate, length = now.counted.acceptance_rate, now.counted.mean_acceptance_length
        yield "acceptance", f"{rate:.1%} of draft tokens, mean length {length:.2f} since the start"
        if now.log.acceptance:
            newest = now.log.acceptance
            yield "", f"{newest.accepted / newest.drafted:.1%}, mean length {newest.length:.2f} in the last window"
    if now.log.errors:
        yield "errors", f"{now.log.errors} lines at the end of the log; the last: {now.log.last_error}"
