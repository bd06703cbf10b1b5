"""What can be wrong with the driver. Pure; each rule yields `Finding`s."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kit.gpu.findings import Expected, Finding, numbers
from kit.gpu.known import known_gpu, version
from kit.gpu.records import CRASHED, HARMLESS, HUNG
from kit.gpu.snapshot import Snapshot, normal_bus_id

Findings = Iterator[Finding]
NO_NVML = {
    "library-not-found": (
        "libnvidia-ml.so.1 is not on this machine: no NVIDIA driver is installed, or it is not visible here",
        "install NVIDIA's driver; inside a container, start it with the GPUs (--device nvidia.com/gpu=all)",
    ),
    "driver-not-loaded": ("NVIDIA's kernel module is not loaded", "sudo modprobe nvidia; then sudo dmesg | grep NVRM"),
    "version-mismatch": (
        "the driver's library and its kernel module are of different versions: the driver was updated while loaded",
        "reboot; or stop all that uses a GPU, then sudo rmmod nvidia_uvm nvidia && sudo modprobe nvidia",
    ),
    "no-permission": ("this user may not open /dev/nvidiactl", "ls -l /dev/nvidia*; add the user to the owning group"),
    "error": (
        "NVML does not start",
        "inside a container that had its GPUs before: they were lost (a systemctl daemon-reload does that with the "
        "legacy runtime); recreate the container and use CDI. On the host: nvidia-smi; sudo dmesg | grep NVRM",
    ),
}


def nvml_starts(snapshot: Snapshot, expected: Expected) -> Findings:
    for gap in snapshot.gaps:
        if gap.call == "nvmlInit" and gap.reason not in (HUNG, CRASHED):
            found, fix = NO_NVML.get(gap.reason, NO_NVML["error"])
            yield Finding("nvml-unavailable", "fail", f"{found} ({gap.text})", "NVML answers", fix)


def calls_come_back(snapshot: Snapshot, expected: Expected) -> Findings:
    for gap in snapshot.gaps:
        if gap.reason in (HUNG, CRASHED):
            at = "" if gap.gpu is None else f" on {numbers([gap.gpu])}"
            yield Finding(
                "nvml-call-hung" if gap.reason == HUNG else "nvml-call-crashed",
                "fail",
                f"{gap.call}{at} {gap.text}",
                "every driver call returns",
                "sudo dmesg | grep -e NVRM -e Xid; if it stays so: reboot, then look at the card's power and riser",
                () if gap.gpu is None else (gap.gpu,),
            )


def calls_answer(snapshot: Snapshot, expected: Expected) -> Findings:
    """A refusal is not an answer; a missing answer is a fault only where the card's twins give one."""
    names = {gpu.index: gpu.name for gpu in snapshot.working()}
    open_at = {(gap.call, gap.gpu) for gap in snapshot.gaps}
    for gap in snapshot.gaps:
        if gap.call == "nvmlInit" or gap.reason in (HUNG, CRASHED, "lost", "reset-required"):
            continue
        twins = [n for n, name in names.items() if gap.gpu in names and name == names[gap.gpu]]
        sliced = gap.gpu is not None and snapshot.gpus[gap.gpu].mig  # in MIG mode the whole card has less to say
        alone = gap.peer is None and not sliced and any((gap.call, twin) not in open_at for twin in twins)
        if gap.reason not in HARMLESS or alone:
            pair = [n for n in (gap.gpu, gap.peer) if n is not None]
            at = f" on {numbers(pair)}" if pair else ""
            refused = gap.reason == "no-permission"
            yield Finding(
                "nvml-call-failed",
                "warn",
                f"{gap.call}{at}: {gap.text or gap.reason}",
                "an answer, as from other cards of this kind" if gap.reason in HARMLESS else "an answer",
                "sudo kit probe" if refused else "sudo dmesg | grep NVRM; nvidia-smi -q",
                tuple(pair),
            )


def driver_fits(snapshot: Snapshot, expected: Expected) -> Findings:
    known = next(filter(None, (known_gpu(gpu.name) for gpu in snapshot.working())), None)
    if not known or not snapshot.driver:
        return
    old = version(snapshot.driver) < version(known.driver_min)
    if old or version(snapshot.driver) < version(known.driver_seen):
        yield Finding(
            "driver-old",
            "fail" if old else "warn",
            f"driver {snapshot.driver}, CUDA up to {snapshot.cuda_driver}",
            f"{known.driver_seen} or newer for {known.name_prefix}",
            f"install a newer driver of NVIDIA's ({known.driver_seen} is the oldest seen serving) and reboot",
        )
    if known.open_module and snapshot.kernel_module == "proprietary":
        yield Finding(
            "driver-closed-module",
            "fail",
            "the proprietary kernel module is loaded",
            f"the open one: {known.name_prefix} needs it",
            "install the -open flavour of the driver package and reboot",
        )


def kernel_silent(snapshot: Snapshot, expected: Expected) -> Findings:
    ours = {normal_bus_id(gpu.bus_id): gpu.index for gpu in snapshot.gpus if gpu.bus_id}
    by_card: dict[str, list[int]] = {}
    for xid in snapshot.xids or ():
        by_card.setdefault(xid.bus_id, []).append(xid.number)
    for bus_id, codes in by_card.items():
        index = ours.get(bus_id)
        counted = ", ".join(f"{code}{f' ({n} times)' if n > 1 else ''}" for code, n in Counter(codes).items())
        yield Finding(
            "gpu-xid",
            "warn",
            f"{bus_id if index is None else numbers([index])}: the kernel's log holds Xid {counted} since boot",
            "no Xid",
            "sudo dmesg | grep Xid; NVIDIA's Xid table says which part is at fault",
            () if index is None else (index,),
        )


RULES = (nvml_starts, calls_come_back, driver_fits, kernel_silent, calls_answer)
