"""The way from a deployment to a ready service, or to a diagnosis.

Ready means: the process is alive, /health answers, the model is listed under its served name and
one real token came back. A start that dies ends the wait at once; it is not restarted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kit.config import Deployment
from kit.errors import UsageError
from kit.host.cdi import cdi_spec
from kit.render import container_spec
from kit.serve import container as box
from kit.serve.api import Api, ApiError, api_of
from kit.serve.follow import LogFollower
from kit.serve.port import need_free_port
from kit.serve.prepare import prepare
from kit.serve.runs import new_run, record

if TYPE_CHECKING:
    from docker import DockerClient

    from kit.engine import Engine
    from kit.logs import Diagnosis

POLL_S = 0.2
READY_POLL_S = 1.0


@dataclass(frozen=True)
class Started:
    """A service that is ready: the run's folder, seconds until ready, and whether it ran already."""

    run: Path
    seconds: float
    already: bool


@dataclass(frozen=True)
class Died:
    """A start that failed: why the wait ended, the diagnosis, the log, seconds until then."""

    reason: str
    diagnosis: Diagnosis
    log: Path
    seconds: float


def start(
    deployment: Deployment, engine: Engine, client: DockerClient, image: str, say: Callable[[str], None]
) -> Started | Died:
    """Start the service and wait until it is ready or has failed.

    Called under the deployment's lock. On Ctrl-C the container is stopped and the log kept.
    Raises MissingError for what is not there, KitError for an engine that refuses.
    """
    rendered = prepare(deployment, image)
    spec = container_spec(deployment, image)
    wanted = box.digest(spec, rendered.files)
    api = api_of(deployment)
    old = box.find(client, spec.name)
    if old is not None:
        running = box.state(client, old.id).status == "running"
        if running and old.labels.get(box.SPEC_LABEL) == wanted and not _why_not_ready(deployment, api):
            say("already up and ready, with these very settings")
            return Started(new_run(deployment), 0.0, True)
        say(f"replacing the {'running' if running else 'stopped'} container of an earlier start")
        box.stop(old, spec.stop_grace)
        box.remove(old)
    need_free_port(deployment)
    run = new_run(deployment)
    gpu_access = _gpu_access(spec.gpus, engine)
    try:
        created = box.launch(client, spec, wanted, gpu_access)
    except box.LimitsRefused as error:
        say("the engine may not raise limits here (locked memory, open files): starting with its own")
        say(error.evidence[0])
        created = box.launch(client, replace(spec, ulimits=()), wanted, gpu_access)
    began = time.monotonic()
    follower = LogFollower(created, run / "container.log")
    try:
        reason = _wait(deployment, client, str(created.id), api, follower, began, say)
    except BaseException:
        say("stopping the container")
        box.stop(created, 3)
        follower.end()
        raise
    seconds = time.monotonic() - began
    if reason is None:
        box.allow_restarts(created, spec.restarts)
        record(run, "run.json", {"schema": "kit.run/1", "image": image, "ready_s": round(seconds, 2)})
        return Started(run, seconds, False)
    return _died(client, str(created.id), created, follower, run, reason, seconds)


def _died(
    client: DockerClient,
    container_id: str,
    created: object,
    follower: LogFollower,
    run: Path,
    reason: str,
    seconds: float,
) -> Died:
    box.stop(created, 3)  # type: ignore[arg-type]
    follower.end()
    end = box.state(client, container_id)
    stopped_by_us = reason.startswith(("the log", "no progress", "not ready"))
    diagnosis = follower.finish(None if stopped_by_us else end.exit_code, end.oom_killed)
    from kit.logs import to_json

    record(run, "diagnosis.json", to_json(diagnosis))
    return Died(reason, diagnosis, follower.path, seconds)


def _wait(
    deployment: Deployment,
    client: DockerClient,
    container_id: str,
    api: Api,
    follower: LogFollower,
    began: float,
    say: Callable[[str], None],
) -> str | None:
    """Wait until ready (None) or until it cannot become so (why)."""
    limits = deployment.kit.limits
    stage, next_probe = "", began + READY_POLL_S
    while True:
        now = time.monotonic()
        if follower.stage != stage:
            stage = follower.stage
            say(f"{now - began:7.1f} s  {stage}")
        end = box.state(client, container_id)
        if not end.alive:
            follower.end()
            how = " (killed for memory)" if end.oom_killed else ""
            return f"the container ended with status {end.exit_code}{how}"
        if follower.fatal is not None:
            return "the log shows a fatal error"
        if now >= next_probe:
            if _why_not_ready(deployment, api) is None:
                return None
            next_probe = time.monotonic() + READY_POLL_S
        if now - began > limits.start_timeout:
            return f"not ready within limits.start_timeout ({limits.start_timeout} s)"
        if now - follower.last_growth > limits.stall_timeout:
            return f"no progress: the log has not grown for limits.stall_timeout ({limits.stall_timeout} s)"
        time.sleep(POLL_S)


def _why_not_ready(deployment: Deployment, api: Api) -> str | None:
    """Why the service is not ready, or None when it is."""
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


def _gpu_access(wanted: str | None, engine: Engine) -> str | None:
    """How this engine gives GPUs to a container. Raises UsageError when kit.yaml asks for what it lacks."""
    if wanted == "auto":  # an engine that understands CDI has no use of it without a spec
        by_cdi = engine.cdi and cdi_spec().files
        return "runtime" if "nvidia" in engine.runtimes and not by_cdi else "cdi"
    if wanted == "cdi" and not engine.cdi:
        raise UsageError(f"gpus.access is cdi, and Docker {engine.version} has no CDI", hint="set gpus.access: runtime")
    return wanted
