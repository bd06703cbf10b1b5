"""How long a person waits for the everyday verbs, and how much memory the kit itself takes.

    python -m benchmarks.verbs [-f examples/embedded.yaml]

Each row is the median of five whole processes after one warm-up, beside `python -c pass` in the same run. The image
row needs the deployment's image to be built; it is left out where no engine answers.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

RUNS = 5


def measure(arguments: list[str]) -> tuple[float, float, float, int]:
    """(wall seconds, processor seconds, peak MiB, exit status): medians over RUNS whole processes."""
    walls, cpus, peaks, status = [], [], [], 0
    for run in range(RUNS + 1):
        began = time.monotonic()
        child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, waited, usage = os.wait4(child.pid, 0)
        child.returncode = status = os.waitstatus_to_exitcode(waited)
        if run:
            walls.append(time.monotonic() - began)
            cpus.append(usage.ru_utime + usage.ru_stime)
            peaks.append(usage.ru_maxrss / 1024)
    return statistics.median(walls), statistics.median(cpus), max(peaks), status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-f", "--file", default="examples/embedded.yaml")
    file = parser.parse_args().file
    python, kit = [sys.executable, "-c", "pass"], [sys.executable, "-m", "kit"]
    rows = {
        "python -c pass": python,
        "kit --help": [*kit, "--help"],
        "kit config check": [*kit, "config", "check", "-f", file],
        "kit render": [*kit, "render", "-f", file],
        "kit doctor": [*kit, "doctor", "-f", file],
        "kit image build, nothing to do": [*kit, "image", "build", "-f", file],
        "kit status": [*kit, "status", "-f", file],
    }
    print(f"{'':32}{'wall s':>8}{'cpu s':>8}{'MiB':>6}{'exit':>6}{'x python':>10}")
    least = 0.0
    for name, arguments in rows.items():
        wall, cpu, peak, status = measure(arguments)
        least = least or wall
        print(f"{name:32}{wall:8.2f}{cpu:8.2f}{peak:6.0f}{status:6}{wall / least:10.1f}")


if __name__ == "__main__":
    main()
