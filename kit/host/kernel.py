"""The kernel: its command line, IOMMU mode, the NVIDIA module, and the faults it logged."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from kit.gpu.snapshot import Xid, normal_bus_id
from kit.host.pci import NVIDIA
from kit.host.root import number, text

XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+),? ?(.*)")
KMSG_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class Iommu:
    """`mode`: off, passthrough, translated, or unknown; `said` quotes where that was read."""

    mode: str
    said: str


def cmdline(root: Path) -> dict[str, str]:
    """The kernel's command line as name and value; a bare word has the value ""."""
    words = (text(root / "proc/cmdline") or "").split()
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def iommu(root: Path) -> Iommu:
    """How the IOMMU treats the devices: by each group's default domain, else by the command line and sysfs."""
    options = cmdline(root)
    said = " ".join(
        f"{name}={options[name]}"
        for name in ("iommu", "amd_iommu", "intel_iommu", "iommu.passthrough")
        if name in options
    )
    kinds = _group_types(root)
    if kinds:
        mode = "translated" if any(kind.startswith("DMA") for kind in kinds) else "passthrough"
        return Iommu(mode, f"iommu group types: {', '.join(sorted(kinds))}")
    units = root / "sys/class/iommu"
    if "off" in (options.get("iommu"), options.get("amd_iommu"), options.get("intel_iommu")):
        return Iommu("off", said)
    if units.is_dir() and not any(units.iterdir()):
        return Iommu("off", f"{said or 'command line without iommu='}; no IOMMU in /sys/class/iommu")
    if options.get("iommu") == "pt" or options.get("iommu.passthrough") == "1":
        return Iommu("passthrough", said)
    if units.is_dir():
        return Iommu("translated", said or "command line without iommu=; an IOMMU is in /sys/class/iommu")
    return Iommu("unknown", said or "no /sys/class/iommu")


def _group_types(root: Path) -> set[str]:
    """The types (DMA, DMA-FQ, identity) of the IOMMU groups that hold NVIDIA's devices, else of all groups."""
    groups = list((root / "sys/kernel/iommu_groups").glob("*"))
    ours = [g for g in groups if any(number(d / "vendor") == NVIDIA for d in (g / "devices").glob("*"))]
    return {kind for kind in (text(group / "type") for group in ours or groups) if kind}


def nvidia_module(root: Path) -> str | None:
    """Which of NVIDIA's kernel modules is loaded: open, proprietary, or None."""
    said = text(root / "proc/driver/nvidia/version")
    if said is None:
        return None
    return "open" if "Open Kernel Module" in said else "proprietary"


def xids(root: Path) -> tuple[Xid, ...] | None:
    """NVIDIA's Xid faults in the kernel's log since boot; None where the log may not be read (it may need root)."""
    try:
        log = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    data = bytearray()
    try:
        while len(data) < KMSG_MOST_BYTES:
            try:
                chunk = os.read(log, 1 << 16)
            except BlockingIOError:  # the newest record was read
                break
            except BrokenPipeError:  # records were overwritten while we read: go on with the oldest left
                continue
            if not chunk:
                break
            data += chunk
    except OSError:
        return None
    finally:
        os.close(log)
    return tuple(find_xids(data.decode(errors="replace")))


def find_xids(log: str) -> list[Xid]:
    """The Xid faults in a piece of the kernel's log."""
    return [
        Xid(int(m[2]), normal_bus_id(m[1] if "." in m[1] else f"{m[1]}.0"), m[3].strip()) for m in XID.finditer(log)
    ]
