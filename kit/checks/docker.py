"""The container engine, and how it hands over GPUs."""

from __future__ import annotations

from typing import Any

from kit.checks.base import Answer, Check, GpuCheck
from kit.config import Deployment
from kit.engine import Engine
from kit.gpu.known import version
from kit.gpu.snapshot import Snapshot
from kit.host.cdi import CdiSpec

OLDEST = "20.10"
TOOLKIT = "install nvidia-container-toolkit, then: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"


class Answers(Check):
    """Without an engine that answers nothing can be built or started. On Debian and Ubuntu the kit can set up one of
    its own, so there its absence is no failure yet."""

    id = "docker.answers"
    title = "a container engine answers"

    def check(self, engine_or_why: Engine | str, can_set_up: bool) -> Answer:
        if not isinstance(engine_or_why, str):
            return self.good(f"{engine_or_why.kind} engine {engine_or_why.version} at {engine_or_why.host}")
        if can_set_up:
            return self.bad(engine_or_why, "a Docker engine", "kit engine setup   (a private one)", level="warn")
        return self.bad(engine_or_why, "a Docker engine", "kit engine status")


class Recent(Check):
    """Older engines lack what the hardened container needs. The image store decides whether builds can be compared
    by digest; the cgroup version what limits mean."""

    id = "docker.version"
    title = "the engine is recent enough"
    requires = ("docker.answers",)
    fix = "update Docker Engine"

    def check(self, engine: Engine, engine_info: dict[str, Any]) -> Answer:
        store = (
            "containerd" if engine.containerd_store else f"{engine_info.get('Driver')} (equal builds are not promised)"
        )
        cgroup = f"cgroup v{engine_info.get('CgroupVersion', '?')} by {engine_info.get('CgroupDriver', '?')}"
        found = f"{engine.version}, store {store}, {cgroup}"
        return self.good(found) if version(engine.version) >= version(OLDEST) else self.bad(found, OLDEST)


class GpuAccess(GpuCheck):
    """A container gets GPUs by CDI (specs that name device nodes and libraries) or by NVIDIA's runtime; gpus.access
    says which, and auto takes what is there."""

    id = "docker.gpu-access"
    title = "the engine can hand GPUs to a container"
    requires = ("docker.answers",)
    fix = TOOLKIT

    def check(self, engine: Engine, cdi: CdiSpec, deployment: Deployment) -> Answer:
        wanted = deployment.kit.gpus.access
        by_cdi = engine.cdi and bool(cdi.files)
        by_runtime = "nvidia" in engine.runtimes
        ways = [name for name, there in (("cdi", by_cdi), ("runtime", by_runtime)) if there]
        if (wanted == "auto" and ways) or wanted in ways:
            return self.good(f"{' and '.join(ways)} (gpus.access: {wanted})")
        if wanted != "auto" and ways:
            return self.bad(
                f"only {ways[0]}, but gpus.access is {wanted}", wanted, f"gpus.access: {ways[0]}; or {TOOLKIT}"
            )
        if cdi.files and not engine.cdi:
            return self.bad(
                f"CDI specs are there, but Docker {engine.version} does not read them",
                "CDI in the engine",
                'Docker 28.3 or newer; from 25 on {"features": {"cdi": true}} in /etc/docker/daemon.json and a restart',
            )
        found = "no CDI spec for nvidia.com/gpu and no nvidia runtime"
        broken = f"; unreadable: {'; '.join(cdi.broken)}" if cdi.broken else ""
        return self.bad(found + broken, "one of them")


class CdiCurrent(GpuCheck):
    """A CDI spec names files of one driver version and one set of device nodes. After a driver update it names what is
    gone, and containers fail to start or find no GPU."""

    id = "docker.cdi-current"
    title = "the CDI spec is of this driver and these cards"
    requires = ("docker.gpu-access",)
    fix = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"

    def check(self, cdi: CdiSpec, gpus: Snapshot) -> Answer:
        if not cdi.files:
            return self.skip("no CDI spec: the runtime is used")
        if cdi.missing_nodes:
            return self.bad(f"named but not there: {', '.join(cdi.missing_nodes[:4])}", "device nodes that exist")
        if gpus.driver and cdi.drivers and gpus.driver not in cdi.drivers:
            return self.bad(f"made for driver {', '.join(cdi.drivers)}", f"driver {gpus.driver}")
        return self.good(f"{', '.join(cdi.files)}: {len(cdi.devices)} devices")


class DaemonReload(GpuCheck):
    """With NVIDIA's legacy runtime and the systemd cgroup driver, `systemctl daemon-reload` takes the GPUs away from a
    running container: `Failed to initialize NVML: Unknown Error` inside, nothing wrong outside. CDI is not affected."""

    id = "docker.daemon-reload"
    title = "a daemon-reload will not take the GPUs away"
    severity = "warn"
    requires = ("docker.gpu-access",)
    fix = f"use CDI: {TOOLKIT}; then gpus.access: cdi"

    def check(self, engine: Engine, engine_info: dict[str, Any], cdi: CdiSpec, deployment: Deployment) -> Answer:
        by_cdi = engine.cdi and cdi.files and deployment.kit.gpus.access != "runtime"
        if by_cdi:
            return self.good("CDI")
        driver = engine_info.get("CgroupDriver")
        return (
            self.bad(f"legacy runtime, cgroup driver {driver}", "CDI")
            if driver == "systemd"
            else self.good(f"legacy runtime, cgroup driver {driver}")
        )
