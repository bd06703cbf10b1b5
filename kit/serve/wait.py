"""Waits for a start to become ready, or for the first sign that it cannot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kit.config import Deployment
from kit.serve import container as box
from kit.serve.api import Api, ApiError
from kit.serve.follow import LogFollower
from kit.watch.session import Frame, Session
from kit.watch.words import duration

if TYPE_CHECKING:
    from docker import DockerClient

POLL_S = 0.1  # after news, and while a fatal line waits for what explains it
IDLE_S = 0.4  # without news: waking costs more than looking does
STATE_EVERY_S = 5.0  # the end of the log says sooner that the container ended
ASK_EVERY_S = 1.0
ASK_EARLY_EVERY_S = 10.0  # before the log says that the API server is coming up


@dataclass(frozen=True)
class Ending:
    """Why waiting ended without a ready service: what happened, in words, and what was known then."""

    kind: Literal["exited", "fatal", "half-dead", "hung", "timeout"]
    reason: str
    frame: Frame


def wait_until_ready(
    deployment: Deployment,
    client: DockerClient,
    container_id: str,
    api: Api,
    follower: LogFollower,
    session: Session,
    now: Callable[[], float],
) -> Ending | None:
    """Wait until ready (None), or until the start cannot become so. `now`: seconds since the start."""
    limits = deployment.kit.limits
    asker = _Asker(lambda: why_not_ready(deployment, api), follower.news.set)
    next_state = next_ask = 0.0
    while True:
        at = now()
        frame = session.tick(at)
        if follower.fault is not None:
            raise follower.fault
        if follower.over or at >= next_state:
            next_state = at + STATE_EVERY_S
            end = box.state(client, container_id)
            if not end.alive:
                follower.end()
                how = " (killed for memory)" if end.oom_killed else ""
                return Ending("exited", f"the container ended with status {end.exit_code}{how}", session.tick(now()))
        if follower.fatal is not None:
            return Ending("fatal", "the log shows a fatal error", frame)
        if frame.missing:
            return Ending("half-dead", f"half dead: {frame.missing[0].name} is gone, the others wait for it", frame)
        if asker.ready:
            return None
        near = frame.snapshot.stage in ("api", "serving")
        if at >= next_ask or (near and at >= asker.asked_at + ASK_EVERY_S):
            asker.ask(at)
            next_ask = at + ASK_EARLY_EVERY_S
        if frame.judgement.verdict == "hung":
            spent = duration(frame.judgement.quiet_s)
            return Ending("hung", f"hung: no progress for {spent}: {frame.judgement.text}", frame)
        if at > limits.start_timeout:
            return Ending("timeout", f"not ready within limits.start_timeout ({limits.start_timeout} s)", frame)
        if follower.fatal_since is not None or follower.news.wait(IDLE_S):
            time.sleep(POLL_S)
        follower.news.clear()


class _Asker:
    """Asks whether the service is ready in a thread of its own: an answer may take long, and a crash must not wait."""

    def __init__(self, why_not: Callable[[], str | None], tell: Callable[[], None]) -> None:
        self.ready = False
        self.asked_at = 0.0
        self._why_not, self._tell = why_not, tell
        self._thread: threading.Thread | None = None

    def ask(self, at: float) -> None:
        """Ask now, unless the last question is still open."""
        if self._thread is None or not self._thread.is_alive():
            self.asked_at = at
            self._thread = threading.Thread(target=self._ask, daemon=True)
            self._thread.start()

    def _ask(self) -> None:
        self.ready = self._why_not() is None
        self._tell()


def why_not_ready(deployment: Deployment, api: Api) -> str | None:
    """Why the service is not ready, or None when it is: health, the model under its name, one real token."""
    name = deployment.kit.model.served_name
    try:
        api.get("/health")
        if name not in api.models():
            return f"the API serves {api.models()}, not {name!r}"
        body = {
            "model": name,
            "prompt": "t5" if deployment.kit.model.reference else "1",
            "max_tokens": 1,
            "temperature": 0,
        }
        done = api.complete("/v1/completions", body, 60)
    except ApiError as error:
        return str(error)
    return None if done.tokens == 1 else "the first request brought no token"
