"""Each card, and the driver. What `kit probe` finds wrong is judged in `kit.gpu`; here it meets the deployment."""

from __future__ import annotations

from typing import ClassVar

from kit.checks.base import Answer, GpuCheck, worst
from kit.config import Deployment
from kit.gpu.findings import Finding, numbers, size
from kit.gpu.known import version
from kit.gpu.rules_cards import describe
from kit.gpu.snapshot import Gpu, Snapshot


class FindingCheck(GpuCheck):
    """A check that passes when the probe has none of certain findings; `ids` names those of `kit.gpu.rules_*`."""

    ids: ClassVar[tuple[str, ...]]
    well: ClassVar[str] = "nothing found"

    def check(self, findings: list[Finding]) -> Answer:
        ours = [finding for finding in findings if finding.id in self.ids]
        if not ours:
            return self.good(self.well)
        return worst([Answer("fail" if f.level == "fail" else "warn", f.found, f.want, f.fix) for f in ours])


class DriverAnswers(FindingCheck):
    """NVML must load, start, and return from every call. A call that hangs here hangs vLLM too, without a word."""

    id = "gpu.driver-answers"
    title = "the driver answers every call"
    ids = ("nvml-unavailable", "nvml-call-hung", "nvml-call-crashed")
    well = "every call returned"


class Present(GpuCheck):
    """All the cards that gpus.count asks for must be seen by the driver. A card that the PCI bus shows and the driver
    does not is named by its address."""

    id = "gpu.present"
    title = "all expected GPUs are there"
    fix = "nvidia-smi -L; sudo dmesg | grep -e NVRM -e Xid"

    def check(self, gpus: Snapshot, findings: list[Finding], deployment: Deployment) -> Answer:
        want, found = deployment.kit.gpus.count, len(gpus.gpus)
        if found == 0:
            return self.bad(
                "this machine has no GPU that answers",
                f"{want} GPUs",
                "run this on the GPU machine; to try the kit without one: kit doctor -f examples/embedded.yaml",
            )
        missing = [f for f in findings if f.id == "gpu-missing"]
        if missing:
            return worst([self.bad(f.found, f.want, f.fix) for f in missing])
        return self.good(f"{found} of {want}" if found <= want else f"{found}, {want} asked for")


class Alive(FindingCheck):
    """A card that fell off the bus, waits for a reset or gives no handle stops every rank."""

    id = "gpu.alive"
    title = "every GPU can be used"
    requires = ("gpu.present",)
    ids = ("gpu-lost", "gpu-reset-required", "gpu-unusable", "gpu-compute-prohibited")
    well = "all give a handle"


class OneKind(FindingCheck):
    """Tensor parallelism gives every card the same share: one smaller card decides for all. gpus.name says which kind
    the deployment was made for."""

    id = "gpu.one-kind"
    title = "the GPUs are of the expected kind, all alike"
    requires = ("gpu.present",)
    ids = ("gpu-odd-one", "gpu-wrong-kind", "gpu-memory-short")
    well = "all alike"


class DriverFits(FindingCheck):
    """The driver must know the card, and for Blackwell the open kernel module must be loaded."""

    id = "gpu.driver-fits"
    title = "the driver is right for these GPUs"
    requires = ("gpu.present",)
    ids = ("driver-old", "driver-closed-module")
    well = "not older than those seen serving"


class CudaFits(GpuCheck):
    """The driver must run the CUDA that the image was built with. Within one major version an older driver runs what
    was compiled ahead of time, but may refuse kernels compiled at run time."""

    id = "gpu.cuda-fits"
    title = "the driver runs the image's CUDA"
    requires = ("gpu.present",)
    fix = "a newer driver (CUDA 12.8 needs R570, CUDA 13 needs R580); or an engine.vllm built for an older CUDA"

    def check(self, gpus: Snapshot, image_cuda: str | None) -> Answer:
        if image_cuda is None:
            return self.skip("the image's CUDA is not known before it is built")
        if gpus.cuda_driver is None:
            return self.unknown("the driver does not say which CUDA it runs", "nvidia-smi")
        found, want = f"driver {gpus.driver}: CUDA up to {gpus.cuda_driver}", f"CUDA {image_cuda}"
        can, needs = version(gpus.cuda_driver), version(image_cuda)[:2]
        if can[0] < needs[0]:
            return self.bad(found, want)
        return self.good(f"{found}, image {image_cuda}") if can >= needs else self.bad(found, want, level="warn")


class MigOff(FindingCheck):
    """A card in MIG mode shows slices; tensor parallelism needs it whole."""

    id = "gpu.mig-off"
    title = "MIG is off"
    requires = ("gpu.present",)
    ids = ("gpu-mig",)
    well = "off"


class MemoryFree(GpuCheck):
    """vLLM asks each card for gpus.memory_utilization of its whole memory and stops when less is free. What the running
    engine of this very deployment holds does not count."""

    id = "gpu.memory-free"
    title = "each GPU has the memory free that vLLM will ask for"
    requires = ("gpu.present",)
    fix = "end what holds it; or lower gpus.memory_utilization, and see with kit plan what still fits"

    def check(self, gpus: Snapshot, deployment: Deployment, own_containers: frozenset[str]) -> Answer:
        share = deployment.kit.gpus.memory_utilization
        short: list[Gpu] = []
        holders: dict[str, None] = {}
        least: float = 1.0
        for gpu in gpus.working():
            memory = gpu.memory_mib
            if memory.total is None or memory.free is None:
                return self.unknown(f"the memory of {numbers([gpu.index])}", "nvidia-smi")
            ours = sum(h.used_mib or 0 for h in gpu.processes if h.container in own_containers)
            least = min(least, (memory.free + ours) / memory.total)
            if memory.free + ours < share * memory.total:
                short.append(gpu)
                holders |= dict.fromkeys(describe(h) for h in gpu.processes if h.container not in own_containers)
        if not short:
            return self.good(f"{least:.1%} or more of each, {share:.0%} will be asked for")
        free = ", ".join(f"{size(gpu.memory_mib.free or 0)} of {size(gpu.memory_mib.total or 0)}" for gpu in short)
        held = f"; held by {'; '.join(holders)}" if holders else ""
        return self.bad(f"{numbers([g.index for g in short])}: {free} free{held}", f"{share:.0%} of each")


class Healthy(FindingCheck):
    """Memory rows that wait to be replaced, or uncorrected errors, come back hours later as crashes and wrong
    results."""

    id = "gpu.healthy"
    title = "no memory fault is pending"
    requires = ("gpu.present",)
    ids = ("gpu-row-remap-failed", "gpu-row-remap-pending", "gpu-ecc-errors", "gpu-ecc-pending")
    well = "no row remapping pending, no uncorrected errors"


class NoXid(GpuCheck):
    """The driver writes faults of the hardware to the kernel's log as Xid; reading it may need root."""

    id = "gpu.xid"
    title = "the kernel has logged no Xid since boot"
    severity = "warn"
    requires = ("gpu.present",)

    def check(self, gpus: Snapshot, findings: list[Finding]) -> Answer:
        if gpus.xids is None:
            return self.unknown("the kernel's log may not be read by this user", "sudo kit doctor --select gpu.xid")
        found = [f for f in findings if f.id == "gpu-xid"]
        return worst([self.bad(f.found, f.want, f.fix) for f in found]) if found else self.good("none")


class Clocks(FindingCheck):
    """One card slowed by heat or its power supply slows all: every layer ends with an exchange among them."""

    id = "gpu.clocks"
    title = "no GPU is held back by heat or power"
    requires = ("gpu.present",)
    ids = ("gpu-throttled", "gpu-power-limit")
    well = "no slowdown, default power limits"


class Complete(FindingCheck):
    """What the driver refuses or fails to say about a card is not known to be well."""

    id = "gpu.complete"
    title = "the driver answered every question"
    requires = ("gpu.present",)
    ids = ("nvml-call-failed",)
    well = "nothing refused, nothing failed"
