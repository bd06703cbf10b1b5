"""Gives NVML's answers their meaning: records in, `Snapshot` out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kit.gpu.records import CRASHED, HUNG, NOT_ASKED, Answers, Record
from kit.gpu.snapshot import Bar1, Gap, Gpu, Holder, Memory, Pcie, PeerAccess, Power, RowRemap, Snapshot, Xid
from kit.gpu.snapshot import normal_bus_id as normal

MIB = 1 << 20
# NVML's constants: nvmlGpuTopologyLevel_t, nvmlGpuP2PStatus_t, nvmlDeviceArchitecture_t, nvmlComputeMode_t,
# nvmlClocksEventReasons. NVLink remote device type: 0 a card, 2 a switch.
ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
PEER_STATUS = {
    0: "ok",
    1: "chipset-not-supported",
    2: "gpu-not-supported",
    3: "topology-not-supported",
    4: "disabled-by-registry-key",
    5: "not-supported",
}
ARCHITECTURES = {5: "Volta", 6: "Turing", 7: "Ampere", 8: "Ada", 9: "Hopper", 10: "Blackwell"}
COMPUTE_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
THROTTLE_BITS = {
    0x1: "idle",
    0x2: "application-clocks",
    0x4: "power-cap",
    0x8: "hardware-slowdown",
    0x10: "sync-boost",
    0x20: "software-thermal",
    0x40: "hardware-thermal",
    0x80: "power-brake",
    0x100: "display-clocks",
    0x200: "board-limit",
    0x400: "reliability",
}
NVLINK_TO_SWITCH = 2
GONE = ("lost", "reset-required")


def build(
    records: Iterable[Record],
    *,
    numa_nodes: Mapping[str, int] | None = None,
    holders: Mapping[int, Holder] | None = None,
    kernel_module: str | None = None,
    pci_bus_ids: Sequence[str] | None = None,
    xids: Sequence[Xid] | None = None,
) -> Snapshot:
    """The snapshot that these answers describe.

    `numa_nodes` (by PCI address, -1 for none) and `holders` (by process id) come from the kernel and fill in what
    NVML does not say; so do the three that are taken over as they are.
    """
    everything = list(records)
    answers = Answers(everything)
    count = answers.value("count") or 0
    failed = {r.gpu: r.reason for r in everything if r.reason in (HUNG, CRASHED) and r.peer is None}
    gpus = tuple(_gpu(answers, i, failed.get(i), numa_nodes or {}, holders or {}) for i in range(count))
    cuda = answers.value("cuda_driver")
    return Snapshot(
        driver=answers.value("driver"),
        nvml=answers.value("nvml"),
        cuda_driver=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        gpus=gpus,
        links=tuple(tuple(_label(answers, gpus, a, b) for b in range(count)) for a in range(count)),
        pcie_links=tuple(tuple(_pcie_label(answers, a, b) for b in range(count)) for a in range(count)),
        p2p=tuple(tuple(_peer_access(answers, a, b) for b in range(count)) for a in range(count)),
        kernel_module=kernel_module,
        pci_bus_ids=None if pci_bus_ids is None else tuple(normal(b) for b in pci_bus_ids),
        xids=None if xids is None else tuple(xids),
        gaps=_gaps(everything, {gpu.index for gpu in gpus if gpu.state == "ok"}),
        nvml_seconds=round(sum(r.seconds for r in everything), 4),
    )


def _gpu(
    answers: Answers, index: int, failed: str | None, numa_nodes: Mapping[str, int], holders: Mapping[int, Holder]
) -> Gpu:
    def value(field: str) -> Any:
        return answers.value(field, index)

    pci = value("pci") or {}
    bus_id = pci.get("busId") or None
    limit, (low, high) = value("power_limit"), value("power_range") or (None, None)
    mig, ecc = value("mig"), value("ecc")
    remap = value("remapped_rows")
    throttle = value("throttle")
    links = [value(f"nvlink_{n}") for n in range(_nvlinks(answers, index))]
    capability = value("compute_capability")
    return Gpu(
        index=index,
        state=failed or _state(answers, index),
        uuid=value("uuid"),
        name=value("name"),
        serial=value("serial"),
        minor=value("minor"),
        compute_capability=(capability[0], capability[1]) if capability else None,
        architecture=_word(ARCHITECTURES, value("architecture")),
        bus_id=bus_id,
        pci_device_id=f"0x{pci['pciDeviceId']:08X}" if pci else None,
        pci_subsystem_id=f"0x{pci['pciSubSystemId']:08X}" if pci else None,
        vbios=value("vbios"),
        memory_mib=Memory(**_mib(value("memory"), ("total", "reserved", "free", "used"))),
        bar1_mib=Bar1(**_mib(_renamed(value("bar1")), ("total", "used"))),
        pcie=Pcie(
            gen_max=value("pcie_gen_max"),
            gen_card=value("pcie_gen_card"),
            gen_now=value("pcie_gen_now"),
            width_max=value("pcie_width_max"),
            width_now=value("pcie_width_now"),
            replays=value("pcie_replays"),
        ),
        numa_node=_numa_node(answers, index, bus_id, numa_nodes),
        cpu_affinity=cpu_list(value("cpu_affinity")),
        power_limit_w=_watts(limit),
        power=Power(
            _watts(limit), _watts(value("power_default")), _watts(low), _watts(high), _watts(value("power_usage"))
        ),
        temperature_c=value("temperature"),
        utilization_percent=(value("utilization") or {}).get("gpu"),
        performance_state=value("performance_state"),
        throttle=None if throttle is None else tuple(word for bit, word in THROTTLE_BITS.items() if throttle & bit),
        mig=bool(mig[0]) if mig else None,
        mig_pending=mig[0] != mig[1] if mig else None,
        ecc=bool(ecc[0]) if ecc else None,
        ecc_pending=ecc[0] != ecc[1] if ecc else None,
        ecc_uncorrected=value("ecc_uncorrected"),
        row_remap=RowRemap(remap[0], remap[1], bool(remap[2]), bool(remap[3])) if remap else None,
        retired_pages_pending=_flag(value("retired_pages_pending")),
        persistence=_flag(value("persistence")),
        compute_mode=_word(COMPUTE_MODES, value("compute_mode")),
        nvlinks_active=sum(1 for state in links if state) if links else None,
        nvlinks_total=len(links) or None,
        processes=_holders(value("compute_processes"), value("graphics_processes"), holders),
    )


def _state(answers: Answers, index: int) -> str:
    reasons = {r.reason for r in answers.by_key.values() if index in (r.gpu, r.peer) and r.peer is None}
    for state in GONE:
        if state in reasons:
            return state
    return "ok" if answers.value("handle", index) else "error"


def _numa_node(answers: Answers, index: int, bus_id: str | None, numa_nodes: Mapping[str, int]) -> int | None:
    """The node whose memory is nearest: NVML's affinity when it names just one, else NVML's or the kernel's node."""
    words = answers.value("memory_affinity", index)
    nodes = bits(words) if words else []
    if len(nodes) == 1:
        return nodes[0]
    for node in (answers.value("numa_node", index), numa_nodes.get(normal(bus_id)) if bus_id else None):
        if node is not None and node >= 0:
            return int(node)
    return None


def _label(answers: Answers, gpus: Sequence[Gpu], a: int, b: int) -> str | None:
    links = _nvlinks_between(answers, gpus, a, b) if a != b else 0
    return f"NV{links}" if links else _pcie_label(answers, a, b)


def _pcie_label(answers: Answers, a: int, b: int) -> str | None:
    return "X" if a == b else _word(ANCESTORS, answers.value("ancestor", a, b))


def _nvlinks(answers: Answers, gpu: int) -> int:
    """How many NVLinks the card has (those that answered)."""
    number = 0
    while answers.value(f"nvlink_{number}", gpu) is not None:
        number += 1
    return number


def _nvlinks_between(answers: Answers, gpus: Sequence[Gpu], a: int, b: int) -> int:
    """Active NVLinks straight from a to b, or, through switches, as many as the poorer of the two has."""
    to_switch = [0, 0]
    direct = 0
    for side, (one, other) in enumerate(((a, b), (b, a))):
        for number in range(_nvlinks(answers, one)):
            if not answers.value(f"nvlink_{number}", one):
                continue
            peer = (answers.value(f"nvlink_{number}_peer", one) or {}).get("busId")
            if answers.value(f"nvlink_{number}_kind", one) == NVLINK_TO_SWITCH:
                to_switch[side] += 1
            elif peer and side == 0 and gpus[other].bus_id and normal(peer) == normal(gpus[other].bus_id or ""):
                direct += 1
    return direct + min(to_switch)


def _peer_access(answers: Answers, a: int, b: int) -> PeerAccess | None:
    if a == b:
        return None
    names = ("read", "write", "atomics", "nvlink")
    return PeerAccess(**{name: _word(PEER_STATUS, answers.value(f"p2p_{name}", a, b)) for name in names})


def _holders(compute: Any, graphics: Any, known: Mapping[int, Holder]) -> tuple[Holder, ...]:
    """The processes on a card, each once, with what the kernel knows of them."""
    found: dict[int, Holder] = {}
    for item in [*(compute or []), *(graphics or [])]:
        pid, used = item["pid"], item["usedGpuMemory"]
        seen = known.get(pid, Holder(pid))
        found[pid] = Holder(pid, None if used is None else round(used / MIB), seen.name, seen.user, seen.container)
    return tuple(found.values())


def _gaps(records: Iterable[Record], working: set[int]) -> tuple[Gap, ...]:
    """Questions without an answer. One that every card left open in the same way is told once, without a card.

    A card that has left the bus leaves every question open: that is told once too, by the first call that said so.
    """
    alike: dict[tuple[str, str], list[Record]] = {}
    gone: dict[int | None, Record] = {}
    for record in Answers(records).by_key.values():
        if record.reason in GONE:
            if record.peer is None:
                gone.setdefault(record.gpu, record)
        elif record.reason and record.reason != NOT_ASKED:
            alike.setdefault((record.call, record.reason), []).append(record)
    gaps = [Gap(r.call, r.reason or "", r.text, r.gpu) for r in gone.values()]
    for (call, reason), group in alike.items():
        at = {(r.gpu, r.peer) for r in group}
        pairs = {(a, b) for a in working for b in working if a != b}
        if len(working) > 1 and (at >= {(a, None) for a in working} or at >= pairs):
            gaps.append(Gap(call, reason, group[0].text))
        else:
            gaps += [Gap(call, reason, r.text, r.gpu, r.peer) for r in group]
    return tuple(gaps)


def cpu_list(words: Sequence[int] | None) -> str | None:
    """CPU numbers as the kernel lists them (`0-63,128-191`), from 64-bit words of a mask; None when none is set."""
    ranges: list[list[int]] = []
    for cpu in bits(words or []):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if a != b else f"{a}" for a, b in ranges) or None


def bits(words: Sequence[int]) -> list[int]:
    """The numbers of the bits set in a mask of 64-bit words."""
    return [64 * n + bit for n, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def _mib(sizes: Mapping[str, int] | None, names: Sequence[str]) -> dict[str, int | None]:
    return {name: round(sizes[name] / MIB) if sizes and name in sizes else None for name in names}


def _renamed(bar1: Mapping[str, int] | None) -> dict[str, int] | None:
    return {"total": bar1["bar1Total"], "used": bar1["bar1Used"]} if bar1 else None


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _word(words: Mapping[int, str], number: int | None) -> str | None:
    return None if number is None else words.get(number, f"unknown-{number}")
