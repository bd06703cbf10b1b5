"""Asks NVML everything once, and says each answer on its own line: the only module that calls NVIDIA's binding.

Run as a process of its own (`python -m kit.gpu.nvml`), because a call into a sick driver may never return. Before
each call a line `{"asks": call, "gpu": i, "peer": j}` goes out, after it the answer: the reader knows which call hangs.
An answer is one `Record` of `kit.gpu.records` as JSON. Values are NVML's own (bytes, milliwatts, bit masks): what they
mean is decided in `kit.gpu.snapshot`.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import Any

# One row a question: the name of the answer, then the functions that can give it, newest first. An older driver lacks
# the first, which is no fault: the next is asked.
SYSTEM: list[tuple[str, list[str]]] = [
    ("driver", ["nvmlSystemGetDriverVersion"]),
    ("nvml", ["nvmlSystemGetNVMLVersion"]),
    ("cuda_driver", ["nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"]),
]
DEVICE: list[tuple[str, list[str]]] = [
    ("name", ["nvmlDeviceGetName"]),
    ("uuid", ["nvmlDeviceGetUUID"]),
    ("serial", ["nvmlDeviceGetSerial"]),
    ("minor", ["nvmlDeviceGetMinorNumber"]),
    ("pci", ["nvmlDeviceGetPciInfo"]),
    ("compute_capability", ["nvmlDeviceGetCudaComputeCapability"]),
    ("architecture", ["nvmlDeviceGetArchitecture"]),
    ("vbios", ["nvmlDeviceGetVbiosVersion"]),
    ("memory", ["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"]),
    ("bar1", ["nvmlDeviceGetBAR1MemoryInfo"]),
    ("pcie_gen_max", ["nvmlDeviceGetMaxPcieLinkGeneration"]),
    ("pcie_gen_card", ["nvmlDeviceGetGpuMaxPcieLinkGeneration"]),
    ("pcie_gen_now", ["nvmlDeviceGetCurrPcieLinkGeneration"]),
    ("pcie_width_max", ["nvmlDeviceGetMaxPcieLinkWidth"]),
    ("pcie_width_now", ["nvmlDeviceGetCurrPcieLinkWidth"]),
    ("pcie_replays", ["nvmlDeviceGetPcieReplayCounter"]),
    ("numa_node", ["nvmlDeviceGetNumaNodeId"]),
    ("memory_affinity", ["nvmlDeviceGetMemoryAffinity"]),
    ("cpu_affinity", ["nvmlDeviceGetCpuAffinity"]),
    ("power_limit", ["nvmlDeviceGetPowerManagementLimit"]),
    ("power_default", ["nvmlDeviceGetPowerManagementDefaultLimit"]),
    ("power_range", ["nvmlDeviceGetPowerManagementLimitConstraints"]),
    ("power_usage", ["nvmlDeviceGetPowerUsage"]),
    ("temperature", ["nvmlDeviceGetTemperature"]),
    ("utilization", ["nvmlDeviceGetUtilizationRates"]),
    ("performance_state", ["nvmlDeviceGetPerformanceState"]),
    ("throttle", ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"]),
    ("ecc", ["nvmlDeviceGetEccMode"]),
    ("ecc_uncorrected", ["nvmlDeviceGetTotalEccErrors"]),
    ("remapped_rows", ["nvmlDeviceGetRemappedRows"]),
    ("retired_pages_pending", ["nvmlDeviceGetRetiredPagesPendingStatus"]),
    ("mig", ["nvmlDeviceGetMigMode"]),
    ("persistence", ["nvmlDeviceGetPersistenceMode"]),
    ("compute_mode", ["nvmlDeviceGetComputeMode"]),
    ("compute_processes", ["nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"]),
    ("graphics_processes", ["nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"]),
]
# The peer-access questions, by NVML's index. The binding's own name for READ is a one-element tuple (a stray comma).
PEER_ACCESS = {"p2p_read": 0, "p2p_write": 1, "p2p_nvlink": 2, "p2p_atomics": 3, "p2p_pci": 4}
CPU_WORDS = max(4, -(-os.sysconf("SC_NPROCESSORS_CONF") // 64))  # CPU masks come in 64-bit words
EXTRA_ARGUMENTS: dict[str, tuple[int, ...]] = {
    "nvmlDeviceGetMemoryInfo_v2": (0x02000028,),  # the version of the structure that tells reserved from used
    "nvmlDeviceGetCpuAffinity": (CPU_WORDS,),
    "nvmlDeviceGetMemoryAffinity": (1, 0),  # one word of nodes; scope: NUMA node
    "nvmlDeviceGetTemperature": (0,),  # the sensor on the chip
    "nvmlDeviceGetTotalEccErrors": (1, 0),  # uncorrected, since the last reset
}
BINDING_NAME = {"nvmlDeviceGetMemoryInfo_v2": "nvmlDeviceGetMemoryInfo"}
FUNCTION_NOT_FOUND = 13


class Asker:
    """Asks one NVML function after another, except those that hung in an earlier run."""

    def __init__(self, skip: dict[str, list[Any]]):
        import pynvml  # type: ignore[import-untyped]

        self.binding = pynvml
        self.skip_calls: list[str] = skip.get("calls", [])
        self.skip_gpus: list[int] = skip.get("gpus", [])

    def ask(self, field: str, calls: list[str], *args: Any, gpu: int | None = None, peer: int | None = None) -> Any:
        """Say the answer of the first of `calls` that the driver has, and return it.

        True where a call that worked answers nothing, None where it failed or was not made.
        """
        for number, call in enumerate(calls, 1):
            if call in self.skip_calls or gpu in self.skip_gpus or peer in self.skip_gpus:
                return None
            where = {"gpu": gpu, "peer": peer}
            say({"asks": call, **where})
            value, problem = None, {}
            started = time.perf_counter()
            try:
                function = getattr(self.binding, BINDING_NAME.get(call, call))
                value = function(*args, *EXTRA_ARGUMENTS.get(call, ()))
            except self.binding.NVMLError as error:
                problem = {"code": error.value, "text": str(error)}
            except Exception as error:  # the binding itself stumbled, say over bytes that are no text
                problem = {"code": None, "text": f"{type(error).__name__}: {error}"}
            spent = time.perf_counter() - started
            if problem.get("code") == FUNCTION_NOT_FOUND and number < len(calls):
                continue
            if value is None and not problem:
                value = True
            plain = True if field == "handle" and not problem else as_plain(value)
            say({"field": field, **where, "call": call, "value": plain, "seconds": round(spent, 6), **problem})
            return value
        return None


def ask_all(skip: dict[str, list[Any]]) -> None:
    """Ask everything, in one fixed order: system, each card, each ordered pair of cards."""
    asker = Asker(skip)
    if asker.ask("init", ["nvmlInit"]) is None:
        return
    for field, calls in SYSTEM:
        asker.ask(field, calls)
    count = asker.ask("count", ["nvmlDeviceGetCount"]) or 0
    handles = {}
    for gpu in range(count):
        handle = asker.ask("handle", ["nvmlDeviceGetHandleByIndex"], gpu, gpu=gpu)
        if handle is None:
            continue
        handles[gpu] = handle
        for field, calls in DEVICE:
            asker.ask(field, calls, handle, gpu=gpu)
        ask_nvlinks(asker, handle, gpu)
    for one, handle in handles.items():
        for other, peer in handles.items():
            if one != other:
                asker.ask("ancestor", ["nvmlDeviceGetTopologyCommonAncestor"], handle, peer, gpu=one, peer=other)
                for field, index in PEER_ACCESS.items():
                    asker.ask(field, ["nvmlDeviceGetP2PStatus"], handle, peer, index, gpu=one, peer=other)


def ask_nvlinks(asker: Asker, handle: Any, gpu: int) -> None:
    """Ask for each NVLink of a card until the first that it does not have."""
    for link in range(asker.binding.NVML_NVLINK_MAX_LINKS):
        state = asker.ask(f"nvlink_{link}", ["nvmlDeviceGetNvLinkState"], handle, link, gpu=gpu)
        if state is None:
            return
        if state:
            asker.ask(f"nvlink_{link}_kind", ["nvmlDeviceGetNvLinkRemoteDeviceType"], handle, link, gpu=gpu)
            asker.ask(f"nvlink_{link}_peer", ["nvmlDeviceGetNvLinkRemotePciInfo"], handle, link, gpu=gpu)


def as_plain(value: Any) -> Any:
    """A value of the binding (number, text, C structure, array) as JSON can hold it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, ctypes.Structure):
        return {name: as_plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [as_plain(item) for item in value]
    if hasattr(value, "__dict__"):
        return {name: as_plain(item) for name, item in vars(value).items()}
    return value


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    ask_all(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
