"""How long `kit probe` takes beyond the driver's own time, and `kit doctor`. Limits: 0.5 s and 2 s.

The machine is the stand-in of tests/standin with 8 cards, whose every call takes 1 ms: about 1,300 calls.
Run from the project's root: python -m benchmarks.probe_and_doctor
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.standin import standin

RUNS = 5


def measured(*arguments: str) -> tuple[dict[str, Any], float, float]:
    """The document of one `kit` run, its wall time and its processor time in seconds."""
    busy, began = processor_time(), time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "kit", *arguments, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout), time.perf_counter() - began, processor_time() - busy


def processor_time() -> float:
    """Seconds that all ended child processes kept a processor busy."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = standin.build_library(folder)
        profile = standin.load("epyc-8-switch-pairs")
        profile["faults"] = {"delay_us": 1000}
        (folder / "profile").write_text(standin.flat(profile))
        (folder / "kit.yaml").write_bytes(Path("kit.yaml").read_bytes())
        os.environ |= {"LD_LIBRARY_PATH": str(library.parent), "KIT_STANDIN_PROFILE": str(folder / "profile")}
        for _ in range(RUNS):
            document, seconds, busy = measured("probe")
            driver = document["nvml_seconds"]
            beyond = f"beyond it {seconds - driver:.2f} s (processor busy {busy:.2f} s)"
            print(f"probe: {seconds:.2f} s, of which the driver {driver:.2f} s; {beyond}")
        for _ in range(RUNS):
            document, seconds, busy = measured("doctor", "-f", str(folder / "kit.yaml"))
            answered = sum(1 for check in document["checks"] if check["status"] != "skip")
            print(f"doctor, 8 cards: {seconds:.2f} s (processor busy {busy:.2f} s), {answered} checks answered")
        for _ in range(RUNS):
            document, seconds, busy = measured("doctor", "-f", "examples/embedded.yaml")
            print(f"doctor, embedded: {seconds:.2f} s (processor busy {busy:.2f} s), verdict {document['verdict']}")
    print(f"most memory of one process: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000:.0f} MB")


if __name__ == "__main__":
    main()
