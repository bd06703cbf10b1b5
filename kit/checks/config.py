"""What kit.yaml asks for, against this machine. Faults inside kit.yaml itself are told by `kit config check`."""

from __future__ import annotations

from itertools import takewhile

from kit.advice import Advice, accepted
from kit.checks.base import Answer, Check, GpuCheck
from kit.config import Deployment
from kit.config.schema import format_size, parse_size
from kit.errors import MissingError

LEAST_SHM = parse_size("8GiB")


class Port(Check):
    """The port of the API must be free, unless this deployment's own container holds it."""

    id = "config.port"
    title = "the API's port is free"

    def check(self, deployment: Deployment, port_trouble: MissingError | None, running: bool) -> Answer:
        where = f"{deployment.kit.server.host}:{deployment.kit.server.port}"
        if port_trouble is None:
            return self.good(f"{where} is free")
        if running:
            return self.good(f"{where} is held by this deployment, which is running")
        return self.bad(port_trouble.message, f"{where} free", port_trouble.hint)


class Mounts(Check):
    """Every folder of `mounts` must exist: an engine would make an empty one in its place."""

    id = "config.mounts"
    title = "the mounted folders exist"
    fix = "mend mounts in kit.yaml"

    def check(self, deployment: Deployment) -> Answer:
        sources = [deployment.path(mount.source) for mount in deployment.kit.mounts]
        gone = [str(path) for path in sources if not path.exists()]
        return self.bad(f"not there: {', '.join(gone)}") if gone else self.good(f"{len(sources)} mounts")


class ApiKey(Check):
    """The API key's file must hold one key, and other users of the machine must not read it."""

    id = "config.api-key"
    title = "the API key is usable and private"

    def check(self, deployment: Deployment) -> Answer:
        from kit.serve.api import read_key

        name = deployment.kit.server.api_key_file
        if name is None:
            return self.skip("no API key is set: whoever reaches the port may use it")
        try:
            read_key(deployment)
        except MissingError as error:
            return self.bad(error.message, "one key", error.hint)
        path = deployment.path(name)
        mode = path.stat().st_mode & 0o777
        if mode & 0o044:
            return self.bad(f"{path} may be read by others (mode {mode:03o})", "mode 600", f"chmod 600 {path}", "warn")
        return self.good(f"{path}, mode {mode:03o}")


class SharedMemory(GpuCheck):
    """Ranks exchange through /dev/shm: with too little, a process dies of a bus error, or NCCL at its first exchange.
    How much is needed depends on the links and on NCCL: between two cards with NVLink it is next to nothing."""

    id = "config.shm"
    title = "/dev/shm is large enough for the ranks"
    severity = "warn"
    fix = "limits.shm: 16GiB in kit.yaml"

    def check(self, deployment: Deployment) -> Answer:
        shm = deployment.kit.limits.shm
        if deployment.kit.parallel.tensor * deployment.kit.parallel.pipeline == 1:
            return self.skip("one rank")
        found = format_size(shm)
        return self.good(found) if shm >= LEAST_SHM else self.bad(found, f"{format_size(LEAST_SHM)} or more")


class AllUsed(GpuCheck):
    """Cards that the deployment counts on and no rank uses are money spent for nothing."""

    id = "config.all-used"
    title = "every expected GPU is used"
    severity = "warn"
    fix = "raise parallel.tensor or parallel.pipeline, or lower gpus.count"

    def check(self, deployment: Deployment) -> Answer:
        ranks = deployment.kit.parallel.tensor * deployment.kit.parallel.pipeline
        count = deployment.kit.gpus.count
        found = f"{ranks} ranks on {count} GPUs"
        return self.good(found) if ranks == count else self.bad(found, f"{count} ranks")


class AdviceCurrent(GpuCheck):
    """Accepted advice belongs to one box: after cards or slots change it may be wrong."""

    id = "config.advice"
    title = "accepted advice is of this box"
    severity = "warn"
    requires = ("gpu.present",)
    fix = "kit doctor --accept; or kit doctor --no-accept to do without"

    def check(self, deployment: Deployment, advice: Advice) -> Answer:
        kept = accepted(deployment)
        if kept is None:
            new = [name for name in advice.env if name not in deployment.kit.engine.env]
            return self.good(f"none accepted; offered: {', '.join(new)}" if new else "none needed")
        if kept.box != advice.box:
            return self.bad("accepted for another set of cards or links", "advice of this box")
        if (kept.env, kept.cpus) != (advice.env, advice.cpus):
            return self.bad("what is advised has changed since", "the present advice")
        return self.good(f"accepted: {', '.join(kept.env) or 'nothing to set'}")


class GpusVisible(GpuCheck):
    """engine.env may hide cards from the engine: CUDA counts the entries of CUDA_VISIBLE_DEVICES up to the first that
    names no card, so an empty value or -1 hides them all, and vLLM then dies of a rank without a device."""

    id = "config.gpus-visible"
    title = "engine.env hides no GPU"
    fix = "take CUDA_VISIBLE_DEVICES out of engine.env, and choose cards with gpus.devices"

    def check(self, deployment: Deployment) -> Answer:
        listed = deployment.kit.engine.env.get("CUDA_VISIBLE_DEVICES")
        if listed is None:
            return self.good("CUDA_VISIBLE_DEVICES is not set")
        entries = [entry.strip() for entry in listed.split(",")]
        seen = list(takewhile(lambda entry: entry.isdigit() or entry.startswith(("GPU-", "MIG-")), entries))
        want, found = deployment.kit.gpus.count, f"CUDA_VISIBLE_DEVICES={listed!r} leaves {len(seen)} visible"
        return self.good(found) if len(seen) >= want else self.bad(found, f"{want} or more")
