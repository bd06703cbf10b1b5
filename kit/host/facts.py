"""What this machine is, besides its cards: one `HostFacts`, read in a fraction of a second and without root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from kit.host import instructions, kernel, pci
from kit.host.root import host_root, number, text

FLAGS_TOLD = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8", "hypervisor")
MIB = 1 << 20


@dataclass(frozen=True)
class Cpu:
    """`flags`: the announced instruction sets that matter here; `usable`: which of those tried ran (else why not)."""

    model: str | None
    count: int
    flags: tuple[str, ...]
    usable: dict[str, str | None]

    @property
    def broken(self) -> dict[str, str]:
        """Announced sets that do not run, with how the attempt ended."""
        return {name: why for name, why in self.usable.items() if why is not None}


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node: its CPUs as the kernel lists them, its memory in MiB."""

    number: int
    cpus: str
    memory_mib: int | None


@dataclass(frozen=True)
class HostMemory:
    """MiB; `shm` is /dev/shm of this machine (a container has its own)."""

    total: int | None
    available: int | None
    swap_total: int | None
    shm_total: int | None
    shm_free: int | None


@dataclass(frozen=True)
class Limit:
    """A resource limit, soft and hard; -1 for unlimited. Bytes, or a number of files."""

    soft: int
    hard: int


@dataclass(frozen=True)
class Clock:
    """`synchronized`: whether the kernel's clock is steered by a time service; None where that cannot be asked."""

    now: float
    synchronized: bool | None


@dataclass(frozen=True)
class HostFacts:
    """`acs_redirecting` and `acs_unreadable` name bridges between cards (see `kit.host.pci`), and are None where the
    cards' PCI devices are not visible. `cards` counts NVIDIA's display devices on the bus."""

    kernel_release: str
    cmdline: str | None
    iommu: kernel.Iommu
    cpu: Cpu
    numa: tuple[NumaNode, ...]
    numa_balancing: bool | None
    memory: HostMemory
    limits: dict[str, Limit]
    cgroup: str
    clock: Clock
    infiniband: bool
    root: bool
    nvidia_module: str | None
    cards: int | None
    acs_redirecting: tuple[str, ...] | None
    acs_unreadable: tuple[str, ...] | None


def host_facts(root: Path | None = None) -> HostFacts:
    """Read them all. What cannot be read is None; nothing is raised and nothing changed."""
    root = root or host_root()
    cards = pci.nvidia_cards(root)
    redirecting, unreadable = pci.redirecting_bridges(cards or ())
    many = cards is not None and len(cards) > 1
    return HostFacts(
        kernel_release=text(root / "proc/sys/kernel/osrelease") or os.uname().release,
        cmdline=text(root / "proc/cmdline"),
        iommu=kernel.iommu(root),
        cpu=_cpu(root),
        numa=_numa(root),
        numa_balancing=_switch(root / "proc/sys/kernel/numa_balancing"),
        memory=_memory(root),
        limits={name: _limit(kind) for name, kind in _LIMITS.items()},
        cgroup=_cgroup(root),
        clock=Clock(time.time(), _synchronized()),
        infiniband=any((root / "sys/class/infiniband").glob("*")),
        root=os.geteuid() == 0,
        nvidia_module=kernel.nvidia_module(root),
        cards=None if cards is None else len(cards),
        acs_redirecting=tuple(redirecting) if many else None,
        acs_unreadable=tuple(unreadable) if many else None,
    )


def _cpu(root: Path) -> Cpu:
    said = text(root / "proc/cpuinfo") or ""
    lines = [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in said.splitlines())]
    values = dict(reversed(lines))
    announced = set(values.get("flags", "").split())
    flags = tuple(flag for flag in FLAGS_TOLD if flag in announced)
    count = sum(1 for key, _ in lines if key == "processor")
    return Cpu(values.get("model name"), count, flags, instructions.usable(flags))


def _numa(root: Path) -> tuple[NumaNode, ...]:
    nodes = []
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        total = next(
            (line.split()[3] for line in (text(folder / "meminfo") or "").splitlines() if "MemTotal" in line), 0
        )
        nodes.append(NumaNode(int(folder.name[4:]), text(folder / "cpulist") or "", int(total) // 1024 or None))
    return tuple(sorted(nodes, key=lambda node: node.number))


def _memory(root: Path) -> HostMemory:
    said = dict(line.split(":", 1) for line in (text(root / "proc/meminfo") or "").splitlines() if ":" in line)

    def mib(name: str) -> int | None:
        return int(said[name].split()[0]) // 1024 if name in said else None

    total: int | None = None
    free: int | None = None
    with contextlib.suppress(OSError):
        shm = os.statvfs(root / "dev/shm")
        total, free = shm.f_blocks * shm.f_frsize // MIB, shm.f_bavail * shm.f_frsize // MIB
    return HostMemory(mib("MemTotal"), mib("MemAvailable"), mib("SwapTotal"), total, free)


_LIMITS = {
    "memlock": resource.RLIMIT_MEMLOCK,
    "nofile": resource.RLIMIT_NOFILE,
    "stack": resource.RLIMIT_STACK,
    "core": resource.RLIMIT_CORE,
}


def _limit(kind: int) -> Limit:
    soft, hard = (-1 if value == resource.RLIM_INFINITY else value for value in resource.getrlimit(kind))
    return Limit(soft, hard)


def _cgroup(root: Path) -> str:
    if (root / "sys/fs/cgroup/cgroup.controllers").exists():
        return "v2"
    return "v1" if (root / "sys/fs/cgroup/memory").is_dir() else "unknown"


def _switch(path: Path) -> bool | None:
    value = number(path)
    return None if value is None else value != 0


def _synchronized() -> bool | None:
    """Ask the kernel's clock discipline without changing it (adjtimex with no mode set; state 5 is TIME_ERROR)."""
    timex = (ctypes.c_char * 512)()  # larger than struct timex on every architecture; zero: only read
    state = ctypes.CDLL(None).adjtimex(timex)
    return None if state < 0 else state != 5
