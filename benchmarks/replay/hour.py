"""What watching costs over a real hour: a played start of half an hour under `kit up`, then traffic under `kit watch`.

    python -m benchmarks.replay.hour FOLDER [--port 8100] [--speed 1] [--minutes 30] [--serving-minutes 34]

Both run in a terminal (a pseudo-terminal of 200 x 50), with their live screens: that costs most. Every ten seconds a
line goes to FOLDER/usage.jsonl; at the end FOLDER/hour.json and the same on stdout: CPU time as a share of one core,
peak memory, warnings (there should be none), and each stage's beginning beside the log's own.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import signal
import struct
import sys
import termios
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.replay.deployment import ROOT, embedded, playing
from benchmarks.replay.make_log import Start, make_log
from kit.config import load
from kit.serve.prepare import write_reference

# stage -> what the log says when it begins
BEGINS = {
    "config": "version 0.16.0", "processes": "Initializing a V1 LLM engine", "nccl": "world_size=8 rank=0",
    "load": "Starting to load model", "draft-load": "Loading drafter model", "compile": "Using cache directory",
    "kv-cache": "Available KV cache memory", "warmup": "Warming up FlashInfer", "capture": "Capturing CUDA graphs",
    "api": "init engine", "serving": "Application startup complete",
}  # fmt: skip
_TICKS = os.sysconf("SC_CLK_TCK")


def measured(args: Sequence[str], kept: Path, screen: Path, until: float | None) -> dict[str, Any]:
    """Run `kit ARGS` in a pseudo-terminal until it ends, or Ctrl-C after `until` seconds; what it used."""
    began = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
        os.execv(sys.executable, [sys.executable, "-m", "kit", *args])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    threading.Thread(target=_drain, args=(terminal, screen), daemon=True).start()
    peak, looked = 0.0, 0.0
    while True:
        pid, status, used = os.wait4(child, os.WNOHANG)
        at = time.monotonic() - began
        if pid:
            cpu = used.ru_utime + used.ru_stime
            code = os.waitstatus_to_exitcode(status)
            return {"verb": args[0], "exit": code, "seconds": round(at, 1), "cpu_s": round(cpu, 2),
                    "share_of_a_core": f"{cpu / at:.2%}", "peak_mb": round(peak, 1)}  # fmt: skip
        if at - looked >= min(10.0, 1.0 + looked / 10):
            looked = at
            peak = max(peak, _peak_mb(child))
            with kept.open("a") as handle:
                print(json.dumps([args[0], round(at, 1), _cpu_s(child), round(peak, 1)]), file=handle)
        if until is not None and at >= until:
            os.kill(child, signal.SIGINT)
            until = None
        time.sleep(0.2)


def _drain(terminal: int, screen: Path) -> None:
    with screen.open("wb") as handle:
        while True:
            try:
                chunk = os.read(terminal, 65536)
            except OSError:
                return
            handle.write(chunk)
            handle.flush()


def _peak_mb(pid: int) -> float:
    """The largest resident set since the program began (what wait4 tells holds that of its parent too)."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def stages(run: Path, start: Start, speed: float) -> list[dict[str, Any]]:
    """For each stage that was shown: when it began, and when its first line was due (seconds, both less the first)."""
    log = list(make_log(start))
    shown = json.loads((run / "stages.json").read_text())["spans"]
    begun: dict[str, float] = {}
    for span in shown:
        begun.setdefault(span["stage"], span["start"])
    due = {name: next(at for at, line in log if text in line) / speed for name, text in BEGINS.items()}
    first = begun["config"] - due["config"]  # the container's own start
    return [
        {"stage": name, "shown_s": round(begun[name] - first, 2), "log_s": round(due[name], 2)}
        for name in BEGINS
        if name in begun
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--serving-minutes", type=float, default=34.0)
    given = parser.parse_args()
    folder = given.folder.resolve()
    os.environ |= {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    start = Start(minutes=given.minutes, serving_minutes=given.serving_minutes)
    file = embedded(folder, "hour", given.port, limits={"start_timeout": 7200, "stall_timeout": 900})
    playing(file, start, given.speed)
    write_reference(load(file))  # the tiny model: making it is no part of watching
    kept = folder / "usage.jsonl"
    done = [
        measured(["up", "--no-smoke", "--no-doctor", "-f", str(file)], kept, folder / "up.screen", None),
        measured(["watch", "-f", str(file)], kept, folder / "watch.screen", given.serving_minutes * 60 / given.speed),
    ]
    run = folder / ".kit" / "hour" / "runs" / "latest"
    events = [json.loads(line) for line in (run / "events.jsonl").open()]
    seconds, cpu = sum(d["seconds"] for d in done), sum(d["cpu_s"] for d in done)
    screens = [(folder / name).read_text(errors="replace") for name in ("up.screen", "watch.screen")]
    table = stages(run, start, given.speed)
    found = {
        "verbs": done, "seconds": round(seconds, 1), "cpu_s": round(cpu, 2), "share_of_a_core": f"{cpu / seconds:.2%}",
        "peak_mb": max(d["peak_mb"] for d in done),
        "alarms": [e["text"] for e in events if e["event"] == "judgement"],
        "warnings": sorted({text for page in screens for text in re.findall(r"warning: [^\r\n\x1b]*", page)}),
        "stages": table, "worst_s": max(abs(row["shown_s"] - row["log_s"]) for row in table),
    }  # fmt: skip
    (folder / "hour.json").write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
