"""Gathers what goes into a support bundle: an edge. What cannot be had is noted, never fatal."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit import __version__
from kit.config import Deployment
from kit.errors import KitError
from kit.serve.runs import latest_start

if TYPE_CHECKING:
    from docker import DockerClient

RUNS = 3
HEAD, TAIL = 4 << 20, 16 << 20  # bytes of a longer file that are kept from its two ends
_TEXT = {".log", ".json", ".jsonl", ".txt", ".yaml", ".yml", ".env", ".sh", ".py", ".service", ".html", ".lock", ".md"}


@dataclass(frozen=True)
class Piece:
    """A file of the bundle: its name there and its text."""

    name: str
    text: str


def gather(deployment: Deployment, notes: list[str]) -> Iterator[Piece]:
    """Every piece, one after another; what went wrong with one is added to `notes`."""
    yield _json("versions.json", _versions(deployment))
    yield from _file(deployment.file, "kit.yaml", notes)
    yield from _file(deployment.file.with_suffix(".lock"), "kit.lock", notes, needed=False)
    yield _json("config.json", deployment.kit.model_dump(by_alias=True))
    yield from _folder(deployment.rendered, "rendered", notes)
    yield from _folder(deployment.state / "doctor", "doctor", notes)
    yield from _containers(deployment, notes)
    for run in _runs(deployment):
        yield from _folder(run, f"runs/{run.name}", notes)
    yield from _machine(deployment, notes)
    yield from _report(deployment, notes)


def _versions(deployment: Deployment) -> dict[str, Any]:
    system = platform.freedesktop_os_release() if hasattr(platform, "freedesktop_os_release") else {}
    return {
        "kit": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "system": system.get("PRETTY_NAME", platform.system()),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "vllm": deployment.kit.engine.vllm,
        "device": deployment.kit.engine.device,
    }


def _containers(deployment: Deployment, notes: list[str]) -> Iterator[Piece]:
    """The container's description and its log; without an engine or container, the log of the last start."""
    from kit.engine import connect

    log = None
    try:
        engine = connect(lambda text: None)
        yield _json("engine.json", {"version": engine.version, "runtimes": sorted(engine.runtimes), "cdi": engine.cdi})
        with contextlib.closing(engine.client()) as client:
            found = _inspect(client, deployment)
            if found is None:
                notes.append("the deployment has no container now; container.log is that of its last start")
            else:
                description, log = found
                yield _json("container.json", description)
    except (KitError, OSError) as error:
        notes.append(f"the container engine was not asked: {error}")
    run = latest_start(deployment)
    # of a start that failed the kit's own copy is the log proper: the engine's goes on with how it was ended
    if run is not None and (run / "container.log").exists() and (log is None or not (run / "run.json").exists()):
        log = clipped(run / "container.log")
    if log is not None:
        yield Piece("container.log", log)


def _inspect(client: DockerClient, deployment: Deployment) -> tuple[dict[str, Any], str] | None:
    from kit.render.container import container_name
    from kit.serve import container as box

    container = box.find(client, container_name(deployment))
    if container is None:
        return None
    with box.docker_errors("reading the container"):
        description = client.api.inspect_container(str(container.id))
        log = bytearray()
        size = 0
        for chunk in container.logs(stream=True, follow=False):
            size += len(chunk)
            log += chunk
            if len(log) > HEAD + 2 * TAIL:  # keep the beginning, and of the rest what may be its end
                del log[HEAD:-TAIL]
    if size <= HEAD + TAIL:
        return description, log.decode(errors="replace")
    return description, _joined(bytes(log[:HEAD]), bytes(log[-TAIL:]), size - HEAD - TAIL)


def _runs(deployment: Deployment) -> list[Path]:
    """The newest runs, the last start always among them."""
    runs = sorted(p for p in deployment.runs.glob("*") if p.is_dir() and not p.is_symlink())[-RUNS:]
    last = latest_start(deployment)
    return sorted({*runs, *([last] if last else [])})


def _machine(deployment: Deployment, notes: list[str]) -> Iterator[Piece]:
    from kit.logs.collect import kernel_lines

    lines = kernel_lines()
    yield Piece("kernel.txt", "".join(f"{line}\n" for line in lines) or "nothing of interest, or not readable\n")
    for source, name in ((Path("/proc/meminfo"), "meminfo.txt"), (Path("/proc/cmdline"), "cmdline.txt")):
        yield from _file(source, name, notes)
    disks = {}
    for path in {deployment.folder, deployment.target, Path("/dev/shm"), Path("/tmp")}:
        with contextlib.suppress(OSError):
            use = shutil.disk_usage(path)
            disks[str(path)] = {"total": use.total, "free": use.free}
    yield _json("disks.json", disks)
    models = {}
    for folder in (deployment.target, deployment.drafter):
        if folder and folder.is_dir():
            models[str(folder)] = {p.name: p.stat().st_size for p in sorted(folder.iterdir()) if p.is_file()}
            yield from _file(folder / "config.json", f"models/{folder.name}-config.json", notes, needed=False)
    yield _json("models.json", models)


def _report(deployment: Deployment, notes: list[str]) -> Iterator[Piece]:
    from kit.report.collect import of_deployment
    from kit.report.page import page

    try:
        yield Piece("report.html", page(of_deployment(deployment)))
    except KitError as error:
        notes.append(f"no report: {error.message}")


def _folder(folder: Path, name: str, notes: list[str]) -> Iterator[Piece]:
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.is_file() and not path.is_symlink() and path.suffix in _TEXT:
            yield from _file(path, f"{name}/{path.relative_to(folder)}", notes)


def _file(path: Path, name: str, notes: list[str], *, needed: bool = True) -> Iterator[Piece]:
    try:
        yield Piece(name, clipped(path))
    except OSError as error:
        if needed or not isinstance(error, FileNotFoundError):
            notes.append(f"{name}: {path} cannot be read: {error.strerror}")


def clipped(path: Path) -> str:
    """The text of a file; of a long one its beginning and its end, with a line that says so. Raises OSError."""
    with path.open("rb") as handle:
        head = handle.read(HEAD)
        size = path.stat().st_size
        if size <= HEAD + TAIL:
            return (head + handle.read()).decode(errors="replace")
        handle.seek(-TAIL, os.SEEK_END)
        return _joined(head, handle.read(), size - HEAD - TAIL)


def _joined(head: bytes, tail: bytes, left_out: int) -> str:
    return (head + f"\n[kit support: {left_out} bytes left out here]\n".encode() + tail).decode(errors="replace")


def _json(name: str, value: object) -> Piece:
    return Piece(name, json.dumps(value, indent=2, ensure_ascii=True, default=str) + "\n")
