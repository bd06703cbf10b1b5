"""What checks look at, each gathered once and only when asked for: the edge of `kit doctor`.

A fact is a cached property; a check names it as a parameter. To add one, add a property here that calls the module that
gathers it. A fact that cannot be gathered at all raises a `KitError`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.config import Deployment
from kit.errors import MissingError

if TYPE_CHECKING:
    from kit.advice import Advice
    from kit.engine import Engine
    from kit.gpu.findings import Finding
    from kit.gpu.snapshot import Snapshot
    from kit.host.cdi import CdiSpec
    from kit.host.disks import Disk
    from kit.host.facts import HostFacts
    from kit.model import ModelFacts
    from kit.plan.plan import Plan


class Facts:
    """The facts about one deployment on this machine. `call_limit_s`: seconds that a driver call may take."""

    def __init__(self, deployment: Deployment, call_limit_s: float = 5.0):
        self.deployment = deployment
        self.call_limit_s = call_limit_s
        self._begun: dict[str, Future[Any]] = {}

    def begin(self, families: Iterable[str]) -> None:
        """Start what mostly waits for another process, and these families need, beside everything else."""
        needs = {"host": self._host, **({"gpu": self._gpus} if self.deployment.kit.engine.device == "cuda" else {})}
        pool = ThreadPoolExecutor(len(needs))
        self._begun = {family: pool.submit(gather) for family, gather in needs.items() if family in families}
        pool.shutdown(wait=False)

    @cached_property
    def host(self) -> HostFacts:
        """The machine besides its cards."""
        return self._begun["host"].result() if "host" in self._begun else self._host()

    @cached_property
    def gpus(self) -> Snapshot:
        """The cards, as `kit probe` sees them."""
        return self._begun["gpu"].result() if "gpu" in self._begun else self._gpus()

    def _host(self) -> HostFacts:
        from kit.host.facts import host_facts

        return host_facts()

    def _gpus(self) -> Snapshot:
        from kit.gpu.probe import probe

        return probe(self.call_limit_s)

    @cached_property
    def findings(self) -> list[Finding]:
        """What is wrong with the cards, for this deployment."""
        from kit.gpu.findings import Expected
        from kit.gpu.judge import judge

        gpus = self.deployment.kit.gpus
        return judge(self.gpus, Expected(gpus.count, gpus.name))

    @cached_property
    def engine_or_why(self) -> Engine | str:
        """The Docker engine in use, or why there is none."""
        from kit.engine import connect

        try:
            return connect()
        except MissingError as error:
            return error.message

    @cached_property
    def engine(self) -> Engine:
        """The Docker engine in use. Raises MissingError where there is none."""
        if isinstance(self.engine_or_why, str):
            raise MissingError(self.engine_or_why, hint="kit engine status")
        return self.engine_or_why

    @cached_property
    def can_set_up(self) -> bool:
        """Whether the kit could make an engine of its own on this machine."""
        from kit.engine.private import why_not_here

        return why_not_here() is None

    @cached_property
    def engine_info(self) -> dict[str, Any]:
        """What the engine says of itself (`docker info`)."""
        from kit.serve.container import docker_errors

        with contextlib.closing(self.engine.client(timeout=20)) as client, docker_errors("asking the engine"):
            return dict(client.info())

    @cached_property
    def cdi(self) -> CdiSpec:
        """The CDI specs for NVIDIA's GPUs in the folders that the engine reads."""
        from kit.host.cdi import FOLDERS, cdi_spec
        from kit.host.root import host_root

        return cdi_spec(self.engine_info.get("CDISpecDirs") or FOLDERS, host_root())

    @cached_property
    def own_containers(self) -> frozenset[str]:
        """The ids (12 digits) of this deployment's running containers; none where no engine answers."""
        if isinstance(self.engine_or_why, str):
            return frozenset()
        from kit.render.container import LABEL
        from kit.serve.container import docker_errors

        wanted = f"{LABEL}={self.deployment.name}"
        with contextlib.closing(self.engine.client(timeout=20)) as client, docker_errors("listing containers"):
            return frozenset(str(found.id)[:12] for found in client.containers.list(filters={"label": wanted}))

    @cached_property
    def running(self) -> bool:
        """Whether this deployment runs now."""
        return bool(self.own_containers)

    @cached_property
    def port_trouble(self) -> MissingError | None:
        """Why the API's port cannot be bound; None when it can."""
        from kit.serve.port import need_free_port

        try:
            need_free_port(self.deployment)
        except MissingError as error:
            return error
        return None

    @cached_property
    def image_or_why(self) -> tuple[str | None, str]:
        """The name of the deployment's image as the engine has it, or None and why not."""
        from kit.serve.image import image_of

        try:
            with contextlib.closing(self.engine.client(timeout=20)) as client:
                return image_of(self.deployment, client), ""
        except MissingError as error:
            return None, error.message

    @cached_property
    def image_labels(self) -> dict[str, str]:
        """The labels of the deployment's image; none where the engine does not have it."""
        from kit.serve.container import docker_errors

        if self.image_or_why[0] is None:
            return {}
        with contextlib.closing(self.engine.client(timeout=20)) as client, docker_errors("reading the image's labels"):
            return dict(client.images.get(self.image_or_why[0]).labels or {})

    @cached_property
    def capabilities(self) -> tuple[tuple[int, int], ...]:
        """The compute capabilities of the cards here, or of the kind that gpus.name says; empty where unknown."""
        from kit.gpu.known import known_gpu

        seen = {gpu.compute_capability for gpu in self.gpus.gpus if gpu.compute_capability}
        if not seen and (known := known_gpu(self.deployment.kit.gpus.name)):
            seen = {known.capability}
        return tuple(sorted(seen))

    @cached_property
    def image_cuda(self) -> str | None:
        """The CUDA version that the image is built for, from the lock of its recipe; None when that is not known."""
        from kit.host.lock import cuda_of
        from kit.resources import folder

        recipe = folder("images") / self.deployment.image_recipe
        return None if self.deployment.kit.engine.existing else cuda_of(recipe, self.deployment.kit.engine.vllm)

    @cached_property
    def image_disk(self) -> Disk:
        """Where the engine keeps images, containers and cache volumes."""
        from kit.host.disks import disk

        return disk(Path(self.engine.data_root))

    @cached_property
    def state_disk(self) -> Disk:
        """Where the deployment keeps its logs and rendered files."""
        from kit.host.disks import disk

        return disk(self.deployment.state)

    @cached_property
    def model_disk(self) -> Disk:
        """Where the target's files lie."""
        from kit.host.disks import disk

        return disk(self.deployment.target)

    @cached_property
    def model_speed(self) -> float | None:
        """Bytes a second read from the target's largest file; None when there is none large enough to tell."""
        from kit.host.disks import read_speed

        return read_speed(self.deployment.target)

    @cached_property
    def advice(self) -> Advice:
        """Settings that fit the box found."""
        from kit.gpu.advise import advise

        return advise(self.deployment.kit, self.gpus, self.host)

    @cached_property
    def target(self) -> ModelFacts:
        """What is known of the target without loading it; a reference model is written first."""
        from kit.model import judge_target, read_folder

        if self.deployment.kit.model.reference:
            from kit.serve.prepare import write_reference

            write_reference(self.deployment)
        return judge_target(read_folder(self.deployment.target))

    @cached_property
    def drafter(self) -> ModelFacts | None:
        """What is known of the drafter, against the target; None without one."""
        from kit.model import judge_drafter, read_folder
        from kit.model.use import use_of

        folder = self.deployment.drafter
        return judge_drafter(read_folder(folder), self.target, use_of(self.deployment)) if folder else None

    @cached_property
    def plan(self) -> Plan:
        """The memory plan on the cards there are. Raises MissingError where nothing can be planned with."""
        from kit.plan.from_deployment import card_of, setup_of
        from kit.plan.plan import make_plan

        cuda = self.deployment.kit.engine.device == "cuda"
        card, _ = card_of(self.deployment, self.gpus if cuda else None)
        return make_plan(self.target, self.drafter, setup_of(self.deployment, self.target, card))
