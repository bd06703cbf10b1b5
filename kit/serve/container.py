"""The engine's container over Docker's SDK: an edge. It touches only containers that carry our label."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kit.errors import KitError, MissingError, UsageError
from kit.render.container import LABEL, ContainerSpec

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

SPEC_LABEL = "kit.spec"
GOING_S = 20.0  # how long an engine may take to remove a container


@dataclass(frozen=True)
class State:
    """What Docker says of a container: status ("running", "exited", ...), exit code and OOM kill,
    restarts so far, health ("healthy", "starting", "unhealthy" or None) and the last health check's output."""

    status: str
    exit_code: int
    oom_killed: bool
    error: str
    restarts: int
    started_at: str
    finished_at: str
    health: str | None
    health_output: str
    pid: int

    @property
    def alive(self) -> bool:
        return self.status in ("running", "restarting", "paused", "created")


class LimitsRefused(KitError):
    """The engine may not raise a limit (memlock, nofile): it runs in a container or sandbox itself."""


@contextlib.contextmanager
def docker_errors(doing: str) -> Iterator[None]:
    """Turn Docker's errors into ours, saying what was being done."""
    import requests
    from docker.errors import DockerException

    try:
        yield
    except DockerException as error:
        text = str(getattr(error, "explanation", None) or error)
        if "address already in use" in text or "port is already allocated" in text:
            port = re.search(r":(\d+)\b(?!.*:\d)", text)
            raise MissingError(
                f"{doing}: the port is taken by another process",
                evidence=[text],
                hint=f"ss -ltnp 'sport = :{port[1] if port else 'PORT'}' shows by whom; or set server.port in kit.yaml",
            ) from None
        if "no space left on device" in text:
            raise MissingError(
                f"{doing}: no space left on the engine's disk", evidence=[text], hint="docker system df"
            ) from None
        if "could not select device driver" in text or "CDI device" in text or "unknown runtime" in text:
            raise MissingError(
                f"{doing}: the engine cannot give GPUs to a container",
                evidence=[text],
                hint="kit doctor --select docker,gpu",
            ) from None
        if "setting rlimit" in text:
            raise LimitsRefused(f"{doing}: the engine may not set limits", evidence=[text]) from None
        raise KitError(f"{doing}: {text}", hint="kit engine status") from None
    except requests.RequestException as error:
        raise MissingError(f"{doing}: the Docker engine does not answer ({error})", hint="kit engine status") from None


def find(client: DockerClient, name: str) -> Container | None:
    """The container of that name, if it is ours. Raises UsageError when the name belongs to something else."""
    from docker.errors import NotFound

    with docker_errors(f"looking for container {name}"):
        try:
            container = client.containers.get(name)
        except NotFound:
            return None
    if LABEL not in container.labels:
        raise UsageError(f"a container named {name} exists and is not the kit's", hint=f"docker inspect {name}")
    return container


def digest(spec: ContainerSpec, files: dict[str, bytes]) -> str:
    """What a container was made from: its description and the rendered files that it runs."""
    parts = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return hashlib.sha256(json.dumps([asdict(spec), parts], sort_keys=True).encode()).hexdigest()[:16]


def create(client: DockerClient, spec: ContainerSpec, spec_digest: str, gpu_access: str | None) -> Container:
    """Create (not start) the container, hardened. `gpu_access` is "cdi", "runtime" or None."""
    from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

    mounts = [Mount(b.target, b.source, type="bind", read_only=b.read_only) for b in spec.binds]
    if spec.cache_volume:
        mounts.append(Mount("/cache", spec.cache_volume, type="volume", labels={LABEL: spec.labels[LABEL]}))
    arguments: dict[str, Any] = {
        "name": spec.name,
        "entrypoint": list(spec.entrypoint) if spec.entrypoint else None,
        "command": list(spec.command) or None,
        "environment": spec.environment,
        "user": spec.user,
        "init": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "labels": spec.labels | {SPEC_LABEL: spec_digest},
        "shm_size": spec.shm,
        "pids_limit": spec.pids,
        "ulimits": [Ulimit(name=name, soft=value, hard=value) for name, value in spec.ulimits],
        "tmpfs": spec.tmpfs,
        "mounts": mounts,
        "log_config": LogConfig(type=LogConfig.types.JSON, config={"max-size": "200m", "max-file": "5"}),
        "healthcheck": {
            "test": list(spec.health.test),
            "interval": spec.health.interval * 10**9,
            "timeout": spec.health.timeout * 10**9,
            "start_period": spec.health.start_period * 10**9,
            "retries": spec.health.retries,
        },
        "detach": True,
    }
    if spec.memory:
        arguments |= {"mem_limit": spec.memory, "memswap_limit": spec.memory}
    if spec.network == "host":
        arguments["network_mode"] = "host"
    elif spec.publish:
        host, port, inner = spec.publish
        arguments["ports"] = {f"{inner}/tcp": (host, port)}
    if gpu_access == "cdi":
        ids = [f"nvidia.com/gpu={device}" for device in spec.gpu_devices]
        arguments["device_requests"] = [DeviceRequest(driver="cdi", device_ids=ids)]
    elif gpu_access == "runtime":
        some = {"count": -1} if spec.gpu_devices == ("all",) else {"device_ids": list(spec.gpu_devices)}
        arguments["device_requests"] = [DeviceRequest(driver="nvidia", capabilities=[["gpu"]], **some)]
    with docker_errors(f"creating container {spec.name}"):
        return client.containers.create(spec.image, **arguments)


def launch(client: DockerClient, spec: ContainerSpec, spec_digest: str, gpu_access: str | None) -> Container:
    """Create and start the container; where it does not start, none is left. Raises LimitsRefused."""
    created = create(client, spec, spec_digest, gpu_access)
    try:
        with docker_errors(f"starting container {spec.name}"):
            created.start()
    except BaseException:
        remove(created)
        raise
    return created


def state(client: DockerClient, container_id: str | None) -> State:
    """The container's state now. Raises MissingError when it is gone."""
    from docker.errors import NotFound

    with docker_errors("reading the container's state"):
        try:
            found = client.api.inspect_container(str(container_id))
        except NotFound:
            raise MissingError("the container is gone", hint="kit up starts a new one") from None
    now, health = found["State"], found["State"].get("Health") or {}
    checks = health.get("Log") or []
    return State(
        status=now["Status"],
        exit_code=now["ExitCode"],
        oom_killed=bool(now.get("OOMKilled")),
        error=now.get("Error", ""),
        restarts=found.get("RestartCount", 0),
        started_at=now.get("StartedAt", ""),
        finished_at=now.get("FinishedAt", ""),
        health=health.get("Status"),
        health_output=checks[-1].get("Output", "").strip() if checks else "",
        pid=now.get("Pid", 0),
    )


def stop(container: Container, grace: int) -> None:
    """Ask the engine to stop and end it after `grace` seconds; restarts are switched off first. One that is gone, or
    that the engine is removing, is fine."""
    with docker_errors(f"stopping container {container.name}"), may_be_going():
        _restarts(container, 0)
        container.stop(timeout=grace)


def allow_restarts(container: Container, most: int) -> None:
    """Let Docker restart a service that was ready and crashed, `most` times in all; a start is never repeated."""
    with docker_errors("setting the restart limit"):
        _restarts(container, most)


def _restarts(container: Container, most: int) -> None:
    policy: Any = {"Name": "on-failure" if most else "no", "MaximumRetryCount": most}  # the stubs know no "no"
    container.update(restart_policy=policy)


def remove(container: Container) -> None:
    """Remove a container, running or not, and wait until it is gone; one that is already gone is fine. Volumes stay."""
    from docker.errors import NotFound

    with docker_errors(f"removing container {container.name}"), contextlib.suppress(NotFound):
        with may_be_going():
            container.remove(force=True)
        until = time.monotonic() + GOING_S
        while time.monotonic() < until:  # an earlier removal may still be under way: its name is taken until then
            container.reload()
            time.sleep(0.1)


@contextlib.contextmanager
def may_be_going() -> Iterator[None]:
    """Pass over the engine's refusals to touch a container that is gone or being removed."""
    from docker.errors import APIError, NotFound

    try:
        yield
    except NotFound:
        pass
    except APIError as error:
        if not any(said in str(error.explanation) for said in ("marked for removal", "is already in progress")):
            raise
