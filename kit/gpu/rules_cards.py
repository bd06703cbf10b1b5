"""What can be wrong with single cards. Pure; each rule yields `Finding`s."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kit.gpu.findings import Expected, Finding, cards, numbers, size
from kit.gpu.known import known_gpu
from kit.gpu.snapshot import Gpu, Holder, Snapshot, normal_bus_id

Findings = Iterator[Finding]
BUSY_MIB = 1024  # a display server or an idle CUDA context holds less
CLOCK_FAULTS = ("hardware-slowdown", "hardware-thermal", "power-brake", "software-thermal")


def cards_answer(snapshot: Snapshot, expected: Expected) -> Findings:
    for gpu in snapshot.gpus:
        where = f"{numbers([gpu.index])}{f' ({gpu.bus_id})' if gpu.bus_id else ''}"
        if gpu.state == "lost":
            yield Finding(
                "gpu-lost",
                "fail",
                f"{where} has fallen off the bus: the driver says that it is lost",
                "every card answers",
                "sudo dmesg | grep Xid; power off fully and on; if it returns, reseat the card, check its cables",
                (gpu.index,),
            )
        elif gpu.state == "reset-required":
            yield Finding(
                "gpu-reset-required",
                "fail",
                f"{where} needs a reset before it can be used",
                "every card answers",
                f"stop all that uses it; sudo nvidia-smi --gpu-reset -i {gpu.index}; else reboot",
                (gpu.index,),
            )
        elif gpu.state == "error":
            gap = next((g for g in snapshot.gaps if g.gpu == gpu.index), None)
            yield Finding(
                "gpu-unusable",
                "fail",
                f"{where} gives no handle: {gap.text if gap else 'no reason said'}",
                "every card answers",
                "nvidia-smi; sudo dmesg | grep NVRM; ls -l /dev/nvidia*",
                (gpu.index,),
            )


def all_there(snapshot: Snapshot, expected: Expected) -> Findings:
    if not snapshot.gpus and snapshot.gaps:
        return
    seen = {normal_bus_id(gpu.bus_id) for gpu in snapshot.gpus if gpu.bus_id}
    on_bus = snapshot.pci_bus_ids or ()
    silent = [bus_id for bus_id in on_bus if bus_id not in seen] if seen & set(on_bus) else []
    if len(silent) <= sum(1 for gpu in snapshot.gpus if not gpu.bus_id):  # those are known, and say so themselves
        silent = []
    found = len(snapshot.gpus)
    fix = "sudo dmesg | grep -e NVRM -e Xid; lspci -d 10de: ; reboot; then check power, riser and BIOS of that slot"
    if silent:
        yield Finding(
            "gpu-missing",
            "fail",
            f"the driver sees {found} GPUs, the PCI bus {len(on_bus)}: {', '.join(silent)} does not answer",
            f"{len(on_bus)} GPUs",
            fix,
        )
    elif expected.count and found < expected.count:
        yield Finding("gpu-missing", "fail", f"{found} of {expected.count} GPUs", f"{expected.count} GPUs", fix)


def one_kind(snapshot: Snapshot, expected: Expected) -> Findings:
    """Tensor parallelism shares evenly: one smaller or slower card sets the pace and the memory of all."""
    working = snapshot.working()
    kinds = Counter((gpu.name, gpu.compute_capability, gpu.memory_mib.total) for gpu in working)
    fix = "leave the odd card out (gpus.count, or CUDA_VISIBLE_DEVICES by UUID), or exchange it"
    if len(kinds) > 1:
        usual = kinds.most_common(1)[0][0]
        for gpu in working:
            if (gpu.name, gpu.compute_capability, gpu.memory_mib.total) != usual:
                alike = (gpu.compute_capability, gpu.memory_mib.total) == usual[1:]  # an edition of the same chip
                yield Finding(
                    "gpu-odd-one",
                    "warn" if alike else "fail",
                    f"{numbers([gpu.index])} is {_kind(gpu)}",
                    f"like the others: {usual[0]}, {size(usual[2] or 0)}",
                    fix,
                    (gpu.index,),
                )
    wrong = [gpu for gpu in working if expected.name_prefix and not (gpu.name or "").startswith(expected.name_prefix)]
    if wrong and len(kinds) == 1:
        yield Finding(
            "gpu-wrong-kind",
            "fail",
            f"{cards(wrong)}: {wrong[0].name}",
            f"{expected.name_prefix}...",
            "gpus.name in kit.yaml names the kind this deployment was made for: change it, and run kit plan",
            tuple(gpu.index for gpu in wrong),
        )


def whole_memory(snapshot: Snapshot, expected: Expected) -> Findings:
    """A slice of a virtual GPU bears the card's name with less memory."""
    for gpu in snapshot.working():
        known, total = known_gpu(gpu.name), gpu.memory_mib.total
        if known and total and total < 0.99 * known.memory_mib and not gpu.mig:
            yield Finding(
                "gpu-memory-short",
                "warn",
                f"{numbers([gpu.index])}: {size(total)} in all",
                f"{size(known.memory_mib)}, as such a card has",
                "in a guest: pass the whole card through; else nvidia-smi -q -d MEMORY",
                (gpu.index,),
            )


def mig_off(snapshot: Snapshot, expected: Expected) -> Findings:
    for gpu in snapshot.working():
        if gpu.mig or gpu.mig_pending:
            yield Finding(
                "gpu-mig",
                "fail",
                f"{numbers([gpu.index])}: MIG {'is on' if gpu.mig else 'will be on after the next reset'}",
                "MIG off: tensor parallelism needs whole cards",
                f"sudo nvidia-smi -i {gpu.index} -mig 0 && sudo nvidia-smi --gpu-reset -i {gpu.index}",
                (gpu.index,),
            )


def memory_free(snapshot: Snapshot, expected: Expected) -> Findings:
    for gpu in snapshot.working():
        memory = gpu.memory_mib
        if memory.total is None or memory.free is None:
            continue
        told = sum(holder.used_mib or 0 for holder in gpu.processes)
        held = max(memory.total - (memory.reserved or 0) - memory.free, told)
        if held > BUSY_MIB:
            names = "; ".join(map(describe, gpu.processes)) or "a process that cannot be seen from here"
            pids = " ".join(str(holder.pid) for holder in gpu.processes)
            yield Finding(
                "gpu-memory-busy",
                "warn",
                f"{numbers([gpu.index])}: {size(held)} of {size(memory.total)} held by {names}",
                "the card's memory free",
                f"ps -fp {pids}; end it if it is a leftover"
                if pids
                else "look for it on the host, as root: nvidia-smi",
                (gpu.index,),
            )


def memory_sound(snapshot: Snapshot, expected: Expected) -> Findings:
    for gpu in snapshot.working():
        at, remap = numbers([gpu.index]), gpu.row_remap
        reset = f"stop all that uses it; sudo nvidia-smi --gpu-reset -i {gpu.index}; else reboot"
        if remap and remap.failed:
            yield Finding(
                "gpu-row-remap-failed",
                "fail",
                f"{at}: a bad row of memory could not be replaced",
                "spare rows left",
                "take the card out of service and return it",
                (gpu.index,),
            )
        elif (remap and remap.pending) or gpu.retired_pages_pending:
            yield Finding(
                "gpu-row-remap-pending",
                "fail",
                f"{at}: bad memory waits to be replaced at the next reset",
                "no row remapping pending",
                reset,
                (gpu.index,),
            )
        if gpu.ecc_uncorrected:
            yield Finding(
                "gpu-ecc-errors",
                "warn",
                f"{at}: {gpu.ecc_uncorrected} uncorrected memory errors since the last reset",
                "none",
                reset,
                (gpu.index,),
            )
        if gpu.ecc_pending:
            yield Finding(
                "gpu-ecc-pending",
                "warn",
                f"{at}: ECC is {'on' if gpu.ecc else 'off'} and will change at the next reset: so will its memory",
                "no change pending",
                reset,
                (gpu.index,),
            )


def power_and_clocks(snapshot: Snapshot, expected: Expected) -> Findings:
    for gpu in snapshot.working():
        at = numbers([gpu.index])
        slowed = [word for word in gpu.throttle or () if word in CLOCK_FAULTS]
        if slowed:
            yield Finding(
                "gpu-throttled",
                "warn",
                f"{at}: clocks held down now ({', '.join(slowed)})",
                "no hardware or thermal slowdown",
                "check air flow, fans and the power supply; nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
                (gpu.index,),
            )
        power = gpu.power
        if power.limit_w is not None and power.default_w is not None and power.limit_w < power.default_w:
            yield Finding(
                "gpu-power-limit",
                "warn",
                f"{at}: limited to {power.limit_w:g} W",
                f"{power.default_w:g} W, its default",
                f"sudo nvidia-smi -i {gpu.index} -pl {power.default_w:g}, unless this is meant",
                (gpu.index,),
            )
        if gpu.compute_mode == "prohibited":
            yield Finding(
                "gpu-compute-prohibited",
                "fail",
                f"{at}: compute mode forbids every process",
                "compute mode default",
                f"sudo nvidia-smi -i {gpu.index} -c 0",
                (gpu.index,),
            )


def describe(holder: Holder) -> str:
    """A process for people: `pid 4242 python3 (root, in container 0123456789ab) with 80.0 GiB`."""
    where = ", ".join(filter(None, [holder.user, holder.container and f"in container {holder.container}"]))
    held = "" if holder.used_mib is None else f" with {size(holder.used_mib)}"
    return f"pid {holder.pid}{f' {holder.name}' if holder.name else ''}{f' ({where})' if where else ''}{held}"


def _kind(gpu: Gpu) -> str:
    return f"{gpu.name}, {size(gpu.memory_mib.total or 0)}"


RULES = (
    cards_answer,
    all_there,
    one_kind,
    whole_memory,
    mig_off,
    memory_free,
    memory_sound,
    power_and_clocks,
)
