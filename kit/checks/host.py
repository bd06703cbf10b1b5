"""The machine: processor, memory, disks, clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from kit.checks.base import Answer, Check
from kit.config import Deployment
from kit.config.schema import format_size
from kit.host.disks import Disk
from kit.host.facts import HostFacts

GB = 10**9
MIB = 1 << 20
# What an image takes where the engine keeps it, build included; a CPU image of vLLM is 3.7 GB, a CUDA one 10 GB.
IMAGE_ROOM = {"cpu": 8 * GB, "cuda": 24 * GB}
STATE_ROOM = 1 * GB
SLOW_LOAD_S = 1800
KIT_EPOCH = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


class Instructions(Check):
    """Instruction sets that the processor announces are tried in a process of their own. Some hypervisors announce AMX
    and fault on its first instruction: on the CPU, bfloat16 then kills the engine at the first request."""

    id = "host.instructions"
    title = "announced instruction sets run"
    fix = "model.dtype: float32 in kit.yaml keeps vLLM from using it; or ask whoever runs the hypervisor to mend it"

    def check(self, host: HostFacts, deployment: Deployment) -> Answer:
        broken = host.cpu.broken
        if not broken:
            return self.good(f"{host.cpu.model}: {', '.join(host.cpu.usable) or 'nothing to try'}")
        found = ", ".join(f"{name} ({why})" for name, why in broken.items())
        uses = deployment.kit.engine.device == "cpu" and not (
            deployment.kit.model.dtype == "float32" and set(broken) == {"amx_bf16"}
        )
        return self.bad(
            f"announced but not usable: {found}", "every announced set runs", level=None if uses else "warn"
        )


class VectorWidth(Check):
    """vLLM's CPU build needs AVX2 at least; AVX-512 makes it several times as fast."""

    id = "host.vectors"
    title = "the processor has what vLLM's CPU build needs"
    fix = "use a newer processor, or let the hypervisor pass its flags through (host-passthrough)"

    def spared(self, deployment: Deployment) -> str | None:
        return None if deployment.kit.engine.device == "cpu" else "the model runs on GPUs"

    def check(self, host: HostFacts) -> Answer:
        if not host.cpu.flags:
            return self.unknown("this kernel tells no instruction sets", "lscpu")
        if "avx2" not in host.cpu.flags:
            return self.bad("no AVX2", "AVX2, better AVX-512")
        return self.good("AVX-512" if "avx512f" in host.cpu.flags else "AVX2, no AVX-512: slow")


class Memory(Check):
    """The container's memory limit and its /dev/shm must fit into this machine, or the kernel kills the engine."""

    id = "host.memory"
    title = "the memory that the container may use is there"
    fix = "end what else uses memory, or lower limits.memory, limits.shm and limits.tmp in kit.yaml"

    def check(self, host: HostFacts, deployment: Deployment) -> Answer:
        memory, limits = host.memory, deployment.kit.limits
        if memory.total is None or memory.available is None:
            return self.unknown("/proc/meminfo cannot be read", "free -m")
        found = f"{memory.available / 1024:.1f} GiB available of {memory.total / 1024:.1f} GiB"
        if limits.memory is None:
            most = limits.shm + limits.tmp  # both are memory, taken only as far as they are used
            fits = most <= memory.total * MIB
            return self.good(found) if fits else self.bad(found, f"{format_size(most)} (limits.shm and limits.tmp)")
        if limits.memory <= memory.available * MIB:
            return self.good(found)
        level: Literal["warn", "fail"] = "warn" if limits.memory <= memory.total * MIB else "fail"
        return self.bad(found, f"{format_size(limits.memory)} (limits.memory)", level=level)


class ImageRoom(Check):
    """Image layers, containers and the cache volume lie in the engine's data folder; a full disk ends a build or a
    start half-way."""

    id = "host.image-room"
    title = "room for image and caches"
    severity = "warn"
    requires = ("docker.answers",)
    fix = "docker system df; docker builder prune"

    def check(self, image_disk: Disk, deployment: Deployment) -> Answer:
        return _room(self, image_disk, IMAGE_ROOM[deployment.kit.engine.device])


class StateRoom(Check):
    """Logs, results and rendered files of every start lie beside kit.yaml."""

    id = "host.state-room"
    title = "room for logs and results"
    fix = "free some space there; old starts are in .kit/NAME/runs"

    def check(self, state_disk: Disk) -> Answer:
        return _room(self, state_disk, STATE_ROOM)


class ModelDisk(Check):
    """How fast the model's folder reads decides how long a start takes. A network filesystem can be slow, and can stall
    a start without an error."""

    id = "host.model-disk"
    title = "the model's disk is fast enough"
    severity = "warn"
    fix = "copy the model to a local disk: cp -r SOURCE TARGET, then set model.path"

    def check(self, model_disk: Disk, model_speed: float | None, deployment: Deployment) -> Answer:
        folder = deployment.target
        if not folder.is_dir():
            return self.skip(f"{folder} does not exist (model.there says more)")
        where = f"{model_disk.kind or 'unknown filesystem'} at {model_disk.mount or folder}"
        size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        if model_speed is None:
            seconds, speed = 0.0, "too small to time"
        else:
            seconds = size / model_speed
            speed = f"{model_speed / GB:.2f} GB/s, so {size / GB:.1f} GB in {_duration(seconds)}"
        if model_disk.network or seconds > SLOW_LOAD_S:
            return self.bad(f"{where}: {speed}", f"a local disk that reads it all in {_duration(SLOW_LOAD_S)}")
        return self.good(f"{where}: {speed}")


class ClockSane(Check):
    """Signatures, certificates and the order of log lines need a clock that is not years off."""

    id = "host.clock"
    title = "the clock is plausible"
    fix = "sudo timedatectl set-ntp true"

    def check(self, host: HostFacts) -> Answer:
        now = datetime.fromtimestamp(host.clock.now, UTC)
        steered = {True: "steered by a time service", False: "not steered by a time service", None: "unknown steering"}
        found = f"{now:%Y-%m-%d %H:%M} UTC, {steered[host.clock.synchronized]}"
        return self.good(found) if host.clock.now > KIT_EPOCH else self.bad(found, "the present")


def _room(check: Check, disk: Disk, wanted: int) -> Answer:
    found = f"{disk.free / GB:.1f} GB free at {disk.path} ({disk.kind or 'unknown filesystem'})"
    return check.good(found) if disk.free >= wanted else check.bad(found, f"{wanted / GB:g} GB")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
