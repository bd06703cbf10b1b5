"""Gathers logs and the host's evidence: Docker, journald, the kernel, disks. An edge; `host` judges."""

from __future__ import annotations

import contextlib
import heapq
import re
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kit import proc
from kit.errors import KitError, MissingError, UsageError
from kit.logs.host import ContainerState, Host, KernelLine

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_PROJECT_FILES = "com.docker.compose.project.config_files"
_SERVICE = "com.docker.compose.service"


@contextlib.contextmanager
def container_log(name: str) -> Iterator[tuple[Iterator[bytes], Host]]:
    """The log of a container, as chunks, and what the host knows of it. Raises MissingError when there is none."""
    from docker.errors import NotFound

    with _docker() as client, _errors(f"reading the log of {name}"):
        try:
            container = client.containers.get(name)
        except NotFound:
            raise MissingError(f"there is no container {name!r}", hint="docker ps -a") from None
        yield container.logs(stream=True, follow=False), host(state(container), ended(container))


def exists(name: str) -> bool:
    """Whether an engine answers and has a container of that name."""
    from docker.errors import DockerException

    try:
        with _docker() as client:
            client.containers.get(name)
    except (DockerException, MissingError):
        return False
    return True


@contextlib.contextmanager
def compose_log(file: Path) -> Iterator[tuple[Iterator[bytes], Host]]:
    """The logs of a compose project's containers, woven by time; what the host knows of one that ended badly."""
    with _docker() as client, _errors(f"reading the logs of {file}"):
        path = str(file.absolute())
        found = [c for c in client.containers.list(all=True) if path in c.labels.get(_PROJECT_FILES, "").split(",")]
        if not found:
            raise MissingError(f"no container belongs to {path}", hint=f"docker compose -f {file} ps -a")
        streams = [_named_lines(c, len(found) > 1) for c in found]
        bad = [c for c in found if state(c).exit_code not in (0, None)]
        chosen = (bad or found)[0]
        woven = heapq.merge(*streams, key=lambda line: line.split(b" ", 1)[0])
        yield woven, host(state(chosen), ended(chosen))


def _named_lines(container: Container, name: bool) -> Iterator[bytes]:
    """Lines that begin with the engine's time stamp, then the service's name where there are several."""
    label = f"{container.labels.get(_SERVICE, container.name)} | ".encode() if name else b""
    rest = b""
    for chunk in container.logs(stream=True, follow=False, timestamps=True):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in [*whole]:
            stamp, _, text = line.partition(b" ")
            yield stamp + b" " + label + text + b"\n"
    if rest:
        yield rest + b"\n"


def state(container: Container) -> ContainerState:
    """What the engine says of a container."""
    said = container.attrs.get("State", {})
    running = bool(said.get("Running"))
    return ContainerState(
        running,
        None if running else said.get("ExitCode"),
        bool(said.get("OOMKilled")),
        int(container.attrs.get("RestartCount") or 0),
        str(container.id or ""),
    )


def ended(container: Container) -> float | None:
    """When a container ended, in seconds since 1970."""
    return seconds(str(container.attrs.get("State", {}).get("FinishedAt", "")))


def journal_log(unit: str) -> Iterator[bytes]:
    """What journald holds of a unit. Raises MissingError without journalctl, UsageError for an unknown unit."""
    if unit.startswith("-"):
        raise UsageError(f"{unit!r} is not the name of a unit", hint="kit diagnose --journal vllm.service")
    # quiet: what journalctl says of itself, such as "No journal files were found.", is no log
    args = ["journalctl", "--quiet", "--no-pager", "--output", "short-iso-precise", "--unit", unit]
    hint = "systemctl list-units; journalctl may need root"
    empty = True
    try:
        for line in proc.lines(args, silence=lambda: 60.0):
            empty = False
            yield line.encode() + b"\n"
    except proc.ProcessFailed as error:
        raise MissingError(f"journald does not tell of {unit}", hint=hint, evidence=error.evidence) from None
    if empty:
        raise MissingError(f"the journal holds nothing of {unit}", hint=hint)


def host(container: ContainerState | None = None, ended: float | None = None) -> Host:
    """The kernel's messages and free space, as far as this user may see them."""
    free = []
    for path in (Path("/dev/shm"), Path("/tmp")):
        with contextlib.suppress(OSError):
            free.append((str(path), shutil.disk_usage(path).free))
    return Host(container, kernel_lines(), ended, tuple(free))


def kernel_lines() -> tuple[KernelLine, ...]:
    """Lines of the kernel's log that tell of killed processes, crashes and cards; empty when it is not readable."""
    for args in (
        ["journalctl", "--dmesg", "--no-pager", "--quiet", "--output", "short-iso", "--lines", "4000"],
        ["dmesg", "--time-format", "iso"],
        ["dmesg"],
    ):
        with contextlib.suppress(KitError):
            done = proc.run(args, check=False, timeout=20)
            if done.code == 0 and done.out.strip():
                lines = (line for line in done.out.splitlines() if any(m in line.lower() for m in _KERNEL_MARKS))
                return tuple(KernelLine(line, seconds(line.split(" ", 1)[0])) for line in lines)[-400:]
    return ()


_KERNEL_MARKS = ("oom", "out of memory", "segfault", "trap", "xid", "general protection")


def seconds(stamp: str) -> float | None:
    """Seconds since 1970 of an ISO 8601 stamp (nanoseconds are cut), or None."""
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,]\d+)?(Z|[+-]\d\d:?\d\d)$", stamp)
    if match is None:
        return None
    return datetime.fromisoformat(match[1] + match[2]).timestamp()


@contextlib.contextmanager
def _docker() -> Iterator[DockerClient]:
    from kit.cli import out
    from kit.engine import connect

    with contextlib.closing(connect(out.say).client()) as client:
        yield client


@contextlib.contextmanager
def _errors(doing: str) -> Iterator[None]:
    from kit.serve.container import docker_errors

    with docker_errors(doing):
        yield
