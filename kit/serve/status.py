"""What a deployment is doing now, in about a second: container, readiness, acceptance since the start."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kit.config import Deployment
from kit.errors import EngineFailed, GateError, MissingError
from kit.render.container import container_name
from kit.serve import container as box
from kit.serve.api import Api, ApiError
from kit.smoke.counters import Counters, parse

if TYPE_CHECKING:
    from docker import DockerClient

EXIT = {
    "ready": 0,
    "not-ready": GateError.exit_code,
    "dead": EngineFailed.exit_code,
    "absent": MissingError.exit_code,
}


@dataclass(frozen=True)
class Status:
    """`verdict` is "ready", "not-ready", "dead" or "absent"; `why` says why it is not ready.

    `counted` are the engine's counters since its start, None when they cannot be read.
    """

    verdict: str
    why: str | None
    container: box.State | None
    image: str | None
    uptime_s: float | None
    served: tuple[str, ...]
    counted: Counters | None

    def to_json(self) -> dict[str, Any]:
        """kit.status/1."""
        speculation = None
        if self.counted and self.counted.speculating:
            speculation = {
                "num_drafts": self.counted.drafts,
                "num_draft_tokens": self.counted.draft_tokens,
                "num_accepted_tokens": self.counted.accepted_tokens,
                "acceptance_rate": round(self.counted.acceptance_rate, 6),
                "mean_acceptance_length": round(self.counted.mean_acceptance_length, 6),
            }
        box_ = self.container
        return {
            "schema": "kit.status/1",
            "verdict": self.verdict,
            "why": self.why,
            "container": box_ and {"status": box_.status, "health": box_.health, "restarts": box_.restarts},
            "image": self.image,
            "uptime_s": self.uptime_s and round(self.uptime_s, 1),
            "served": list(self.served),
            "requests": self.counted.requests if self.counted else None,
            "speculation": speculation,
        }


def status(deployment: Deployment, client: DockerClient, api: Api) -> Status:
    """Look once. Raises MissingError only when the Docker engine does not answer."""
    found = box.find(client, container_name(deployment))
    if found is None:
        return Status("absent", "there is no container", None, None, None, (), None)
    now = box.state(client, found.id)
    image = str(found.attrs["Config"]["Image"])
    if now.status != "running":
        end = f"the container {now.status}, status {now.exit_code}" + (", killed for memory" if now.oom_killed else "")
        return Status("dead", end, now, image, None, (), None)
    uptime = (datetime.now(UTC) - _time(now.started_at)).total_seconds()
    served: tuple[str, ...] = ()
    counted: Counters | None = None
    why: str | None = None
    try:
        api.get("/health", timeout=2)
        served = tuple(api.models())
        if deployment.kit.model.served_name not in served:
            why = f"the API serves {', '.join(served)}"
    except ApiError as error:
        why = str(error)
    with contextlib.suppress(ApiError, ValueError):
        counted = parse(api.metrics())
    return Status("not-ready" if why else "ready", why, now, image, uptime, served, counted)


def _time(text: str) -> datetime:
    """Docker's time (RFC 3339 with nanoseconds)."""
    return datetime.fromisoformat(text[:26].rstrip("Z") + "+00:00")
