"""How long `kit diagnose` takes and how much memory it holds, beside the usual grep on the same file.

usage: python -m benchmarks.diagnose_speed [--mib 1024] [--keep FOLDER] [--rounds 5]

Makes (deterministically) an hour-long serving log with a crash at its end, a log with one line of 100 MB, one of ten
million lines, and a short one; then runs both by turns and prints the best wall time of each and the diagnoser's peak
memory.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

CRASH = Path(__file__).parents[1] / "tests" / "data" / "logs" / "cpu" / "tp2_rank_killed.log"
GREP = "grep -iE 'error|exception|traceback|failed' \"$1\" | tail -30"
KIT = [sys.executable, "-m", "kit", "diagnose"]
FRONT = "(APIServer pid=361800) INFO"


def minute(rnd: random.Random, second: int) -> Iterator[str]:
    """What a busy server prints in ten seconds, with its routine noise."""
    stamp = f"02-{22 + second // 86400 % 6:02d} {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    yield (
        f"{FRONT} {stamp} [loggers.py:259] Engine 000: Avg prompt throughput: {rnd.uniform(0, 4000):.1f} tokens/s, "
        f"Avg generation throughput: {rnd.uniform(0, 900):.1f} tokens/s, Running: {rnd.randint(0, 32)} reqs, Waiting: "
        f"0 reqs, GPU KV cache usage: {rnd.uniform(0, 60):.1f}%, Prefix cache hit rate: {rnd.uniform(0, 80):.1f}%"
    )
    drafted = rnd.randint(3000, 9000)
    accepted = int(drafted * rnd.uniform(0.25, 0.5))
    yield (
        f"{FRONT} {stamp} [metrics.py:100] SpecDecoding metrics: Mean acceptance length: "
        f"{1 + 5 * accepted / drafted:.2f}, Accepted throughput: {accepted / 10:.2f} tokens/s, Drafted throughput: "
        f"{drafted / 10:.2f} tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance "
        f"rate: 0.712, 0.498, 0.331, 0.214, 0.140, Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
    )
    for _ in range(rnd.randint(2, 14)):
        status = "400 Bad Request" if rnd.random() < 0.02 else "200 OK"
        client = f"10.0.0.{rnd.randint(2, 250)}:{rnd.randint(30000, 60000)}"
        yield f'{FRONT}:     {client} - "POST /v1/chat/completions HTTP/1.1" {status}'
    chance = rnd.random()
    if chance < 0.02:
        yield (
            f"(Worker_TP{rnd.randint(0, 7)} pid=362100) WARNING {stamp} [jit_monitor.py:129] Triton kernel JIT "
            "compilation during inference: kernel_unified_attention."
        )
    elif chance < 0.03:
        yield "/opt/venv/lib/python3.12/site-packages/torch/library.py:357: FutureWarning: error handling is deprecated"


def serving_log(path: Path, mib: int) -> None:
    """The start of a real run, hours of serving, and the end of the same run: a worker is killed."""
    rnd = random.Random(7)
    run = CRASH.read_text(errors="replace").split("\n")
    ready = next(i for i, line in enumerate(run) if "Application startup complete" in line) + 1
    with path.open("w", buffering=1 << 22) as out:
        out.writelines(f"{line}\n" for line in run[:ready])
        size, second = 0, 0
        block = [[f"{line}\n" for line in minute(rnd, 10 * n)] for n in range(20_000)]
        while size < mib << 20:
            text = "".join(block[second % len(block)])
            size += out.write(text)
            second += 1
        out.write("\n".join(run[ready:]))


def long_line_log(path: Path) -> None:
    """A run whose one line holds 100 MB."""
    run = CRASH.read_text(errors="replace").split("\n")
    half = len(run) // 2
    with path.open("w") as out:
        out.write("\n".join(run[:half]) + "\n" + "x" * 100_000_000 + "\n" + "\n".join(run[half:]))


def many_lines_log(path: Path) -> None:
    """A run between ten million short lines."""
    run = CRASH.read_text(errors="replace").split("\n")
    half = len(run) // 2
    with path.open("w") as out:
        out.write("\n".join(run[:half]) + "\n" + "step 1\n" * 10_000_000 + "\n".join(run[half:]))


def elsewhere(work: Callable[[], None]) -> None:
    """Do work in a process of its own: a child's peak memory begins with that of the process that starts it."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    os.waitpid(child, 0)


def measure(args: list[str]) -> tuple[float, int]:
    """Wall time in seconds and peak memory in bytes of a command and its children."""
    start = time.perf_counter()
    child = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def compare(name: str, path: Path, rounds: int) -> None:
    kit, grep, peak = [], [], 0
    for _ in range(rounds):
        wall, memory = measure([*KIT, str(path)])
        kit.append(wall)
        peak = max(peak, memory)
        grep.append(measure(["bash", "-c", GREP, "grep", str(path)])[0])
    size = path.stat().st_size / (1 << 20)
    ratio = min(kit) / min(grep)
    print(
        f"| {name} | {size:.1f} | {min(kit):.2f} | {min(grep):.2f} | {ratio:.2f} | {peak / (1 << 20):.0f} |", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="keep the logs here, and use those that are there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(
            "| log | MiB | kit diagnose, s | grep, s | ratio | kit's peak, MiB |\n| --- | --- | --- | --- | --- | --- |"
        )
        makers = {
            "hours of serving, crash at the end": (f"serving-{asked.mib}.log", lambda p: serving_log(p, asked.mib)),
            "one line of 100 MB": ("long-line.log", long_line_log),
            "ten million lines": ("many-lines.log", many_lines_log),
        }
        for name, (file, make) in makers.items():
            path = folder / file
            if not path.exists():
                elsewhere(lambda make=make, path=path: make(path))
            compare(name, path, asked.rounds)
            if not asked.keep:
                path.unlink()
        compare("226 lines", CRASH, asked.rounds)


if __name__ == "__main__":
    main()
