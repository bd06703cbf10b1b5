"""PCI devices from sysfs: NVIDIA's cards, the bridges above them, and ACS (which needs root to be seen)."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from kit.host.root import number

NVIDIA = 0x10DE
DISPLAY_CLASSES = (0x0300, 0x0302)  # VGA controller, 3D controller
BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# PCI Express extended capabilities start here; the kernel shows them to root only. ACS is capability 0x000D, its
# control register 6 bytes in: bit 2 redirects requests between peers, bit 3 completions (PCIe specification, 7.7.11).
EXTENDED = 0x100
ACS_CAPABILITY = 0x000D
ACS_REQUEST_REDIRECT, ACS_COMPLETION_REDIRECT = 0x4, 0x8


@dataclass(frozen=True)
class Bridge:
    """A bridge or switch port above a card. `redirects`: ACS sends peer traffic up; None when it may not be read."""

    bus_id: str
    redirects: bool | None


@dataclass(frozen=True)
class Card:
    """An NVIDIA display device on the bus; `above` is its way to the root, nearest bridge first."""

    bus_id: str
    numa_node: int | None
    above: tuple[Bridge, ...]


def nvidia_cards(root: Path) -> tuple[Card, ...] | None:
    """NVIDIA's display devices in order of address; None where sysfs shows no PCI bus at all."""
    folder = root / "sys/bus/pci/devices"
    if not folder.is_dir():
        return None
    return tuple(_card(path) for path in sorted(folder.iterdir()) if _is_nvidia_display(path))


def _is_nvidia_display(path: Path) -> bool:
    """Not those handed to a guest or driven by another driver than NVIDIA's: they are none of this machine's GPUs."""
    driver = (path / "driver").resolve().name if (path / "driver").exists() else "nvidia"
    ours = number(path / "vendor") == NVIDIA and driver == "nvidia"
    return ours and (number(path / "class") or 0) >> 8 in DISPLAY_CLASSES


def _card(path: Path) -> Card:
    above = [p for p in path.resolve().parents if BUS_ID.fullmatch(p.name)]
    return Card(path.name, number(path / "numa_node"), tuple(Bridge(p.name, redirects(p / "config")) for p in above))


def redirects(config: Path) -> bool | None:
    """Whether ACS redirects peer traffic at the port with this configuration space; None when that cannot be read."""
    try:
        data = config.read_bytes()
    except OSError:
        return None
    if len(data) <= EXTENDED:
        return None
    at, seen = EXTENDED, set()
    while EXTENDED <= at <= len(data) - 8 and at not in seen:
        seen.add(at)
        header, _, control = struct.unpack_from("<IHH", data, at)
        if header & 0xFFFF == ACS_CAPABILITY:
            return bool(control & (ACS_REQUEST_REDIRECT | ACS_COMPLETION_REDIRECT))
        at = header >> 20
    return False


def redirecting_bridges(cards: tuple[Card, ...]) -> tuple[list[str], list[str]]:
    """The bridges below which two cards lie on different branches: those that redirect, and those not readable.

    Peer traffic between two cards passes every bridge of either that the other does not share, and turns at the
    lowest common one; ACS on any of the former sends it up to the root instead.
    """
    on_way: dict[str, Bridge] = {}
    for one in cards:
        for other in cards:
            if one is not other:
                shared = {bridge.bus_id for bridge in other.above}
                on_way |= {bridge.bus_id: bridge for bridge in one.above if bridge.bus_id not in shared}
    redirecting = sorted(b.bus_id for b in on_way.values() if b.redirects)
    return redirecting, sorted(b.bus_id for b in on_way.values() if b.redirects is None)
