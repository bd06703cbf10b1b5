"""The ways between cards: slots, switches, peer access, and what the kernel does to peer traffic."""

from __future__ import annotations

from kit.checks.base import Answer, GpuCheck
from kit.checks.gpu import FindingCheck
from kit.config import Deployment
from kit.gpu.advise import choose_cards
from kit.gpu.rules_links import ways
from kit.gpu.snapshot import Snapshot
from kit.gpu.topology import furthest, nearest_sets
from kit.host.facts import HostFacts


class Slots(FindingCheck):
    """A card in a narrow or slow slot makes all cards wait. The generation in use is not judged: it sinks when idle."""

    id = "link.slots"
    title = "every GPU has its full PCIe width and generation"
    severity = "warn"
    requires = ("gpu.present",)
    ids = ("link-width", "link-generation", "link-small-bar")
    well = "full width and generation"


class Matrix(FindingCheck):
    """The box should be built evenly and say the same of each pair both ways; an odd matrix is often a missing card."""

    id = "link.matrix"
    title = "the link matrix is whole and even"
    severity = "warn"
    requires = ("gpu.present",)
    ids = ("link-matrix", "link-uneven")
    well = "whole and even"


class PeerAccess(FindingCheck):
    """Without peer access every exchange goes through the machine's memory."""

    id = "link.peer-access"
    title = "the GPUs may reach into each other's memory"
    severity = "warn"
    requires = ("gpu.present",)
    ids = ("link-no-peer-access",)
    well = "read and write between all"


class NvLink(FindingCheck):
    """Cards with NVLink should have every link up."""

    id = "link.nvlink"
    title = "every NVLink is up"
    severity = "warn"
    requires = ("gpu.present",)
    ids = ("link-nvlink-down",)
    well = "all up, or none there"


class Pairing(GpuCheck):
    """vLLM takes the first cards that it sees. Where others are nearer to each other, they should be named."""

    id = "link.pairing"
    title = "the cards used are those nearest to each other"
    severity = "warn"
    requires = ("gpu.present",)
    fix = "kit doctor --accept puts the better order into the launch script"

    def check(self, gpus: Snapshot, deployment: Deployment) -> Answer:
        ranks = deployment.kit.parallel.tensor * deployment.kit.parallel.pipeline
        cards = choose_cards(deployment.kit, gpus)
        if ranks < 2 or not cards:
            return self.skip("one rank" if ranks < 2 else "too few cards answer")
        way = furthest(gpus.links, cards)
        counted = ", ".join(f"{count} {label}" for label, count in sorted(ways(gpus).items()))
        first = [gpu.index for gpu in gpus.gpus][:ranks]
        if deployment.kit.gpus.devices != "all" or furthest(gpus.links, first) == way:
            return self.good(f"furthest way {way} (pairs in the box: {counted})")
        best = " or ".join(",".join(map(str, s)) for s in nearest_sets(gpus.links, [g.index for g in gpus.gpus], ranks))
        return self.bad(f"the first {ranks} cards are {furthest(gpus.links, first)} apart", f"{way}: cards {best}")


class Iommu(GpuCheck):
    """A translating IOMMU together with ACS redirection makes the first all-reduce hang, although the driver says that
    peer access works: all cards at 100 % and about 140 W, memory not growing. Pass-through (iommu=pt) avoids it."""

    id = "link.iommu"
    title = "the IOMMU leaves peer traffic alone"
    severity = "warn"
    requires = ("gpu.present",)
    fix = "add iommu=pt to the kernel command line and reboot; until then: NCCL_P2P_DISABLE=1 (kit doctor --accept)"

    def check(self, host: HostFacts, gpus: Snapshot) -> Answer:
        if len(gpus.gpus) < 2:
            return self.skip("one card")
        found = f"{host.iommu.mode} ({host.iommu.said})"
        if host.iommu.mode == "unknown":
            return self.unknown(host.iommu.said, "cat /proc/cmdline; ls /sys/class/iommu")
        return self.bad(found, "off or pass-through") if host.iommu.mode == "translated" else self.good(found)


class Acs(GpuCheck):
    """ACS redirection on a bridge between two cards sends their traffic up to the root and down again: under one switch
    two-way traffic halves. The bits are in PCI configuration space, which only root may read."""

    id = "link.acs"
    title = "ACS does not redirect traffic between cards"
    severity = "warn"
    requires = ("gpu.present",)
    fix = "turn ACS off in the BIOS (or per bridge with setpci, at every boot)"

    def check(self, host: HostFacts, gpus: Snapshot) -> Answer:
        if len(gpus.gpus) < 2:
            return self.skip("one card")
        if host.acs_redirecting is None or host.acs_unreadable is None:
            return self.skip("the cards' PCI devices are not visible here")
        if host.acs_redirecting:
            return self.bad(f"on at {', '.join(host.acs_redirecting)}", "off between cards")
        if host.acs_unreadable:
            return self.unknown("PCI configuration space needs root", "sudo kit doctor --select link.acs")
        return self.good("off between all cards")
