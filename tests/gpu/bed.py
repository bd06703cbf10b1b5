"""The test bed on the GPU machine: the engine, the GPUs by CDI, and an image that borrows the machine's own Python.

The machine's PyTorch and CUDA libraries are far larger than all parcels together, so the image holds nothing but
folders: the programs come in by read-only mounts, which are ordinary `mounts` of kit.yaml.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tarfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kit import files, proc
from kit.engine import connect, private
from kit.engine.find import found_host
from kit.engine.layout import Layout
from kit.engine.ping import ping
from kit.errors import MissingError
from kit.home import kit_home
from kit.render.container import USER
from tests.gpu import shapes

IMAGE = "kit-bed:1"
DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64")
CDI = Path("/etc/cdi/kit-bed.json")
NO_DEVICE = "bed-none"  # a CDI device with the driver's libraries and no device node: a container that lost its GPUs
ONE_DEVICE = "bed-one"  # and one that has the first card only
# A worker that falls asleep on rank 1 before it measures memory: vLLM's own file with two lines more.
WORKER = "vllm/v1/worker/gpu_worker.py"
MEASURES = "    def determine_available_memory(self) -> int:\n"
SLEEPS = "        if self.rank == 1:\n            __import__('time').sleep(3600)\n"
PROGRAMS = ("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/include", "/etc/alternatives")
SHARED_LINKS = ("bin", "lib", "lib64")
FACTS = """
import json, platform, sys, sysconfig
facts = {"python": platform.python_version(), "prefix": sys.prefix, "base": sys.base_prefix}
try:
    import torch
    facts |= {"torch": torch.__version__, "cuda": torch.version.cuda}
except ImportError:
    pass
print(json.dumps(facts))
"""


@dataclass(frozen=True)
class Bed:
    """What the chain needs to know: `mounts` and `image` for kit.yaml, and facts of the machine for the record."""

    root: Path
    image: str
    mounts: tuple[str, ...]
    facts: dict[str, Any]

    @property
    def deploy(self) -> Path:
        """The folder of the deployments, with the reference models."""
        return self.root / "deploy"


def set_up(root: Path, device: str) -> Bed:
    """Bring the bed up, or find it up. `device` is "cuda" or "cpu" (a rehearsal without a GPU)."""
    python = json.loads(proc.run([os.environ["MACHINE_PYTHON"], "-c", FACTS]).out.splitlines()[-1])
    compiled = [root / "site", f"{python['prefix']}/lib/python{python['python'].rpartition('.')[0]}/site-packages"]
    proc.run([os.environ["MACHINE_PYTHON"], "-m", "compileall", "-q", "-j", "0", *compiled], check=False)
    driver = next((f for f in DRIVER_FOLDERS if (Path(f) / "libcuda.so.1").exists()), None)
    if device == "cuda":
        if driver is None:
            raise MissingError("libcuda.so.1 is in none of " + ", ".join(DRIVER_FOLDERS), hint="nvidia-smi")
        files.write(CDI, json.dumps(cdi_spec(driver), indent=1) + "\n")
    _engine(root)
    pythons = [
        path for path in (python["prefix"], python["base"]) if path != "/usr"
    ]  # never over /usr/sbin: docker-init
    mounts = tuple(dict.fromkeys(_outermost([*PROGRAMS, *pythons, str(root / "site")])))
    engine = connect()
    with contextlib.closing(engine.client()) as client:
        path = f"{root}/site/bin:{python['prefix']}/bin:/usr/bin:/bin"
        env = {"PATH": path, "PYTHONPATH": f"{root}/site", "TRITON_LIBCUDA_PATH": driver or "", "USER": "kit"}
        changes = [f"ENV {name}={value}" for name, value in env.items()] + [f"USER {USER}"]
        repository, tag = IMAGE.split(":")
        client.api.import_image_from_data(thin_image(), repository=repository, tag=tag, changes=changes)
        proof = _prove(client, mounts, device)
    shapes.write_all(root / "deploy" / "shapes", root / "deploy" / ".kit" / "reference" / "llama")
    if device == "cuda":
        files.write(root / "deploy" / "faults" / "sleepy_worker.py", sleepy((root / "site" / WORKER).read_text()))
    bed = Bed(root, IMAGE, mounts, python | _facts(engine) | {"in_a_container": proof})
    files.write(root / "bed.json", json.dumps(asdict(bed) | {"root": str(root)}, indent=1) + "\n")
    return bed


def load(root: Path) -> Bed:
    """The bed that `set_up` left. Raises MissingError before the set-up."""
    try:
        saved = json.loads((root / "bed.json").read_text())
    except OSError:
        raise MissingError(f"no test bed at {root}", hint="sh run.sh setup") from None
    return Bed(root, saved["image"], tuple(saved["mounts"]), saved["facts"])


def cdi_spec(driver: str) -> dict[str, Any]:
    """A CDI description of this machine's cards, for where no other gives one; NO_DEVICE and ONE_DEVICE."""
    nodes = sorted(str(p) for p in Path("/dev").glob("nvidia*") if p.is_char_device())
    devices: list[dict[str, Any]] = [{"name": NO_DEVICE, "containerEdits": {"env": ["KIT_BED_DEVICE=none"]}}]
    first = [{"path": node} for node in nodes if not re.search(r"nvidia[1-9]\d*$", node)]
    devices.append({"name": ONE_DEVICE, "containerEdits": {"deviceNodes": first}})
    if not _others():
        devices.append({"name": "all", "containerEdits": {"deviceNodes": [{"path": node} for node in nodes]}})
    edits: dict[str, Any] = {"env": [f"LD_LIBRARY_PATH={driver}"]}
    if driver.startswith("/usr/local/"):
        folder = str(Path(driver).parent)
        edits["mounts"] = [{"hostPath": folder, "containerPath": folder, "options": ["ro", "nosuid", "nodev", "rbind"]}]
    return {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": devices, "containerEdits": edits}


def sleepy(worker: str) -> str:
    """vLLM's worker with the sleep in it. Raises MissingError where it has no such method."""
    before, method, after = worker.partition(MEASURES)
    if not method:
        raise MissingError(f"{WORKER} has no {MEASURES.strip()}")
    return before + method + SLEEPS + after


def thin_image() -> bytes:
    """A root file system as a tar: folders to mount on, links of a merged /usr, and the user the engine runs as."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in ("etc", "usr", "usr/sbin", "tmp", "run", "proc", "sys", "dev", "kit", "model", "drafter", "cache"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            if name in ("tmp", "cache"):
                entry.mode = 0o1777
            tar.addfile(entry)
        for name in (*SHARED_LINKS, "sbin"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(entry)
        user, group = USER.split(":")
        texts = {"etc/passwd": f"kit:x:{user}:{group}::/tmp:/bin/bash\n", "etc/group": f"kit:x:{group}:\n"}
        for name, text in texts.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _prove(client: Any, mounts: tuple[str, ...], device: str) -> str:
    """What the borrowed Python says in a container of the kind that the chain starts. Raises MissingError."""
    from docker.errors import ContainerError
    from docker.types import DeviceRequest

    says = "import torch; print(torch.__version__, torch.cuda.is_available() and torch.cuda.get_device_name())"
    gpus = [DeviceRequest(driver="cdi", device_ids=["nvidia.com/gpu=all"])] if device == "cuda" else None
    try:
        said = client.containers.run(
            IMAGE,
            ["python3", "-c", says],
            volumes={path: {"bind": path, "mode": "ro"} for path in mounts},
            device_requests=gpus,
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            read_only=True,
            tmpfs={"/tmp": "mode=1777"},
            environment={"HOME": "/tmp"},
            remove=True,
            stderr=True,
        )
    except ContainerError as error:
        last = error.stderr.decode(errors="replace").splitlines()[-12:]
        raise MissingError("the machine's Python does not run in the container", evidence=last) from None
    return str(said.decode(errors="replace").splitlines()[-1])


def _engine(root: Path) -> None:
    """The machine's own engine where it has one, else the packed one as the kit's private engine."""
    layout = Layout(kit_home())
    if private.is_set_up(layout) or use_engine(root) or found_host():
        return
    versions = json.loads((layout.folder / "versions.json").read_text())
    files.write(layout.state, json.dumps({"distribution": "parcels", "packages": versions}) + "\n")
    try:
        private.start(layout, _say)
    except MissingError as error:
        _say(f"{error.message}: starting the engine without a bridge")
        layout.state.unlink()
        _bare_engine(root, layout)


def use_engine(root: Path) -> bool:
    """Point this process and its children at the engine that `_bare_engine` started, if it did."""
    note = root / "docker_host"
    if note.is_file():
        os.environ["DOCKER_HOST"] = note.read_text().strip()
    return note.is_file()


def _bare_engine(root: Path, layout: Layout) -> None:
    """The packed engine on a kernel without bridges: host network or none."""
    config = layout.daemon_config() | {"bridge": "none", "userland-proxy": False}
    files.write(layout.config, json.dumps(config, indent=1) + "\n")
    (layout.run / "exec").mkdir(parents=True, exist_ok=True)
    env = layout.daemon_env(os.environ["PATH"])
    proc.daemon([layout.root / "usr/sbin/dockerd", f"--config-file={layout.config}"], log=layout.log, env=env)
    deadline = time.monotonic() + 60
    while (reason := ping(layout.host)) is not None:
        if time.monotonic() > deadline:
            raise MissingError(f"dockerd does not answer: {reason}", evidence=private.log_tail(layout))
        time.sleep(0.2)
    files.write(root / "docker_host", layout.host + "\n")
    use_engine(root)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _others() -> bool:
    """Whether another CDI file names the cards already."""
    folders = [Path("/etc/cdi"), Path("/var/run/cdi")]
    specs = [p for folder in folders if folder.is_dir() for p in folder.iterdir() if p != CDI]
    return any("nvidia.com/gpu" in p.read_text(errors="replace") for p in specs if p.is_file())


def _outermost(paths: list[str]) -> list[str]:
    """The paths that exist and lie below no other of them."""
    there = [p for p in paths if Path(p).exists()]
    return [p for p in there if not any(p.startswith(f"{other}/") for other in there)]


def _facts(engine: Any) -> dict[str, Any]:
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return {
        "engine": f"Docker {engine.version}" + (" (the kit's private engine)" if engine.kind == "private" else ""),
        "runtimes": list(engine.runtimes),
        "containerd_store": engine.containerd_store,
        "os": release.get("PRETTY_NAME", "").strip('"'),
        "kernel": os.uname().release.partition("-")[0],
        "cores": os.cpu_count(),
    }
