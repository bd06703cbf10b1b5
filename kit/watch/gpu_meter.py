"""Prints memory and use of every NVIDIA card, a JSON line every few seconds, until its output is closed.

Run as a process of its own (`python -m kit.watch.gpu_meter SECONDS`), because a call into a sick driver may
never return: the reader then does without.
"""

from __future__ import annotations

import json
import sys
import time

MIB = 1 << 20


def main() -> None:
    import pynvml  # type: ignore[import-untyped]

    pause = float(sys.argv[1])
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        while True:
            print(json.dumps([_read(pynvml, index, handle) for index, handle in enumerate(handles)]), flush=True)
            time.sleep(pause)
    except pynvml.NVMLError as error:
        sys.exit(f"NVML: {error}")
    except BrokenPipeError:
        sys.exit(0)


def _read(pynvml: object, index: int, handle: object) -> dict[str, object]:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)  # type: ignore[attr-defined]
    try:
        busy = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu  # type: ignore[attr-defined]
    except pynvml.NVMLError:  # type: ignore[attr-defined]
        busy = None  # a card cut into MIG slices does not tell
    try:
        pids = [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]  # type: ignore[attr-defined]
    except pynvml.NVMLError:  # type: ignore[attr-defined]
        pids = None
    sizes = {"used_mib": memory.used // MIB, "total_mib": memory.total // MIB}
    return {"index": index, **sizes, "busy": busy, "pids": pids}


if __name__ == "__main__":
    main()
