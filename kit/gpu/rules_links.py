"""What can be wrong with the ways between cards, and between card and machine. Pure; each rule yields `Finding`s."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kit.gpu import topology
from kit.gpu.findings import Expected, Finding, numbers
from kit.gpu.known import known_gpu
from kit.gpu.snapshot import Gpu, Snapshot

Findings = Iterator[Finding]
SMALL_BAR1_MIB = 1024
SEAT = "power off, reseat the card or its riser, set the slot to its full width and speed in the BIOS"


def full_width(snapshot: Snapshot, expected: Expected) -> Findings:
    working = snapshot.working()
    # A workstation board splits one x16 port over two slots: how it is wired, not what broke.
    split = len(working) <= 2 and len({_widths(gpu) for gpu in working}) == 1
    for gpu in working:
        now, best = _widths(gpu)
        if now and best and now < best and not (split and now == gpu.pcie.width_max):
            yield Finding(
                "link-width",
                "warn",
                f"{numbers([gpu.index])}: PCIe x{now}",
                f"x{best}: with x{now} copies take {best / now:g} times as long, and all cards wait",
                SEAT,
                (gpu.index,),
            )


def full_generation(snapshot: Snapshot, expected: Expected) -> Findings:
    """What card and slot can reach together; the generation now sinks when idle and says nothing."""
    for gpu in snapshot.working():
        known, pcie = known_gpu(gpu.name), gpu.pcie
        best = pcie.gen_card or (known.pcie_gen if known else None)
        if pcie.gen_max and best and pcie.gen_max < best:
            yield Finding(
                "link-generation",
                "warn",
                f"{numbers([gpu.index])}: its slot reaches PCIe Gen{pcie.gen_max}",
                f"Gen{best}, as the card can",
                SEAT,
                (gpu.index,),
            )


def large_bar(snapshot: Snapshot, expected: Expected) -> Findings:
    small = [g for g in snapshot.working() if g.bar1_mib.total and g.bar1_mib.total < SMALL_BAR1_MIB]
    if small:
        yield Finding(
            "link-small-bar",
            "warn",
            f"{numbers([g.index for g in small])}: BAR1 of {small[0].bar1_mib.total} MiB",
            "BAR1 as large as the memory: other cards write through it",
            "turn on Above 4G Decoding and Resizable BAR in the BIOS",
            tuple(g.index for g in small),
        )


def matrix_sound(snapshot: Snapshot, expected: Expected) -> Findings:
    links, members = snapshot.links, [gpu.index for gpu in snapshot.working()]
    pairs = [(a, b) for a in members for b in members if a < b]
    odd = [(a, b) for a, b in pairs if links[a][b] != links[b][a]]
    unknown = [(a, b) for a, b in pairs if topology.distance(links[a][b]) > topology.distance("SYS")]
    for what, found in (("two ways of different length", odd), ("no known way", set(unknown) - set(odd))):
        if found:
            yield Finding(
                "link-matrix",
                "warn",
                f"{what} between {_pairs(sorted(found))}",
                "one label for each pair, the same both ways",
                "nvidia-smi topo -m; sudo dmesg | grep NVRM",
            )


def even_groups(snapshot: Snapshot, expected: Expected) -> Findings:
    """A box of five cards or more is built evenly: an uneven one has lost a card, or has one in a stray slot."""
    members = [gpu.index for gpu in snapshot.working()]
    if len(members) < 5 or len(members) < len(snapshot.gpus) or len(members) == expected.count:
        return
    for label in ("NODE", "PHB", "PXB", "PIX"):
        split = topology.groups(snapshot.pcie_links, members, label)
        sizes = {len(group) for group in split}
        if (len(split) > 1 and len(sizes) > 1) or (len(split) == 1 and len(members) % 2):
            yield Finding(
                "link-uneven",
                "warn",
                f"{len(members)} GPUs in uneven groups: {'; '.join(numbers(group) for group in split)}",
                "groups of one size",
                "is a card missing? lspci -d 10de: ; sudo dmesg | grep -e NVRM -e Xid",
            )
            return


def peers_reach(snapshot: Snapshot, expected: Expected) -> Findings:
    """Without peer access every exchange goes through the machine's memory: it works, at a fraction of the speed."""
    blocked: dict[str, list[tuple[int, int]]] = {}
    members = [gpu.index for gpu in snapshot.working()]
    for a in members:
        for b in members:
            access = snapshot.p2p[a][b]
            bad = [s for s in (access.read, access.write) if s not in (None, "ok")] if access and a != b else []
            if bad:
                blocked.setdefault(bad[0], []).append((a, b))
    for status, pairs in blocked.items():
        yield Finding(
            "link-no-peer-access",
            "warn",
            f"no peer access ({status}) between {_pairs(pairs)}",
            "read and write between all cards",
            "nvidia-smi topo -p2p r; set iommu=pt (or off) on the kernel command line; in a guest, pass cards through "
            "with ACS handled by the host; else set NCCL_P2P_DISABLE=1",
            tuple(sorted({n for pair in pairs for n in pair})),
        )


def nvlinks_up(snapshot: Snapshot, expected: Expected) -> Findings:
    for gpu in snapshot.working():
        known = known_gpu(gpu.name)
        want = (known.nvlinks if known else None) or gpu.nvlinks_total
        if want and gpu.nvlinks_active is not None and gpu.nvlinks_active < want:
            yield Finding(
                "link-nvlink-down",
                "warn",
                f"{numbers([gpu.index])}: {gpu.nvlinks_active} of {want} NVLinks are up",
                f"{want}",
                "nvidia-smi nvlink --status; systemctl status nvidia-fabricmanager",
                (gpu.index,),
            )


def _widths(gpu: Gpu) -> tuple[int | None, int | None]:
    """The width in use and the best known: the card's own when we know the card, else what NVML says."""
    known = known_gpu(gpu.name)
    best = max(gpu.pcie.width_max or 0, known.pcie_width if known else 0)
    return gpu.pcie.width_now or gpu.pcie.width_max, best or None


def _pairs(pairs: list[tuple[int, int]]) -> str:
    shown = ", ".join(f"{a}-{b}" for a, b in pairs[:6])
    return f"GPUs {shown}{f' and {len(pairs) - 6} more pairs' if len(pairs) > 6 else ''}"


RULES = (full_width, full_generation, large_bar, matrix_sound, even_groups, peers_reach, nvlinks_up)


def ways(snapshot: Snapshot) -> Counter[str]:
    """How often each label occurs among pairs of working cards."""
    members = [gpu.index for gpu in snapshot.working()]
    return Counter(snapshot.links[a][b] or "unknown" for a in members for b in members if a < b)
