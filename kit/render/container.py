"""What the container is given: one description that compose.yaml and the SDK both follow; pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kit.config import Deployment

USER = "2000:2000"
PORT = 8000  # inside the container's own network
LABEL = "kit.deployment"


@dataclass(frozen=True)
class Bind:
    """A path of this machine in the container."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class Health:
    """The container's health check; times in seconds."""

    test: tuple[str, ...]
    interval: int
    timeout: int
    start_period: int
    retries: int


@dataclass(frozen=True)
class ContainerSpec:
    """Everything about the engine's container. Sizes in bytes, times in seconds.

    `tmpfs` is path -> mount options; `publish` is (host address, host port, container port) or None; `gpus` is None,
    "cdi", "runtime" or "auto" and `gpu_devices` names the cards; `ulimits` is (name, soft and hard).
    """

    name: str
    image: str
    entrypoint: tuple[str, ...] | None
    command: tuple[str, ...]
    environment: dict[str, str]
    binds: tuple[Bind, ...]
    cache_volume: str | None
    tmpfs: dict[str, str]
    user: str
    network: Literal["bridge", "host"]
    publish: tuple[str, int, int] | None
    memory: int | None
    shm: int
    pids: int
    ulimits: tuple[tuple[str, int], ...]
    gpus: str | None
    gpu_devices: tuple[str, ...]
    health: Health
    restarts: int
    stop_grace: int
    labels: dict[str, str]


def container_name(deployment: Deployment) -> str:
    """Unique on this machine: two checkouts may hold deployments of one name."""
    return name_in(deployment.name, deployment.folder)


def name_in(name: str, folder: Path) -> str:
    """`container_name` of the deployment `name` whose kit.yaml lies in `folder`."""
    return f"kit-{name}-{_short(str(folder))}"


def container_spec(deployment: Deployment, image: str) -> ContainerSpec:
    """The container of a deployment that runs `image` (a reference the engine can resolve)."""
    kit = deployment.kit
    existing = kit.engine.existing is not None
    name = container_name(deployment)
    gpu = kit.engine.device == "cuda"
    devices = kit.gpus.devices
    return ContainerSpec(
        name=name,
        image=image,
        entrypoint=("/bin/bash", "/kit/launch.sh") if existing else None,
        command=() if existing else ("/kit/launch.sh",),
        environment={"KIT_IN_CONTAINER": "1", "HOME": "/tmp"},
        binds=_binds(deployment),
        # keyed by image and drafter: a compile cache from another image crashes or gives NaN, and
        # vLLM 0.16.0's cache key leaves out the drafter's auxiliary layers
        cache_volume=f"{name}-cache-{_short(image + str(deployment.drafter))}" if kit.caches.volume else None,
        tmpfs={path: _tmpfs(kit.limits.tmp) for path in ("/tmp", *(() if kit.caches.volume else ("/cache",)))},
        user=USER,
        network=kit.server.network,
        publish=(kit.server.host, kit.server.port, PORT) if kit.server.network == "bridge" else None,
        memory=kit.limits.memory,
        shm=kit.limits.shm,
        pids=kit.limits.pids,
        ulimits=(("memlock", -1), ("stack", 64 << 20), ("nofile", 65536), ("core", 0)),
        gpus=kit.gpus.access if gpu else None,
        gpu_devices=tuple(devices) if isinstance(devices, list) else ("all",),
        health=Health(("CMD", "python3", "/kit/healthcheck.py"), 15, 10, kit.limits.start_timeout, 3),
        restarts=kit.limits.restarts,
        stop_grace=kit.limits.stop_grace,
        labels={LABEL: deployment.name, "kit.folder": _short(str(deployment.folder))},
    )


def _tmpfs(size: int) -> str:
    """Mount options. Where the image has the folder, runc takes its mode in place of `mode`, but not its owner."""
    uid, gid = USER.split(":")
    return f"size={size},mode=1777,uid={uid},gid={gid},exec"


def _binds(deployment: Deployment) -> tuple[Bind, ...]:
    kit, tree = deployment.kit, deployment.rendered
    binds = [
        Bind(str(tree / "launch.sh"), "/kit/launch.sh"),
        Bind(str(tree / "engine.env"), "/kit/engine.env"),
        Bind(str(tree / "healthcheck.py"), "/kit/healthcheck.py"),
        Bind(str(deployment.target), "/model"),
    ]
    if deployment.drafter:
        binds.append(Bind(str(deployment.drafter), "/drafter"))
    if kit.server.api_key_file:
        binds.append(Bind(str(deployment.api_key_copy), "/run/secrets/api_key"))
    binds += [Bind(str(deployment.path(m.source)), m.target, m.read_only) for m in kit.mounts]
    return tuple(binds)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
