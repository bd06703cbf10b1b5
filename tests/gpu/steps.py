"""What the chain does on the machine: runs verbs of the kit, kills workers, holds memory, reads times of log lines."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kit import proc
from kit.config import load
from kit.engine import connect
from kit.render.container import container_name
from tests.gpu.cases import Hold, Kill

HERE = Path(__file__).parent
LONGEST_S = 500


@dataclass(frozen=True)
class Done:
    """A verb that ended: exit code, its JSON (None where it printed none), what it said, when it ended (epoch)."""

    code: int
    json: dict[str, Any] | None
    said: str
    seconds: float
    ended: float


def kit(verb: str, *args: str | Path) -> Done:
    """Run `kit VERB ARGS` as a person would, to its end."""
    began = time.monotonic()
    done = proc.run([sys.executable, "-m", "kit", verb, *args], check=False, timeout=LONGEST_S)
    ended, seconds = time.time(), time.monotonic() - began
    found = None
    with contextlib.suppress(ValueError):
        found = json.loads(done.out)
    said = done.err if found is not None else done.out + done.err
    return Done(done.code, found if isinstance(found, dict) else None, said, seconds, ended)


@contextlib.contextmanager
def holding(hold: Hold | None) -> Iterator[None]:
    """Another process holds GPU memory inside the block."""
    if hold is None:
        yield
        return
    command = [os.environ["MACHINE_PYTHON"], str(HERE / "hold.py"), str(hold.gib), str(hold.card)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        if not holder.stdout.readline().startswith("holding"):
            raise RuntimeError(f"hold.py could not take {hold.gib} GiB")
        yield
        holder.kill()


def kill_worker(file: Path, kill: Kill, log: Path, ended: threading.Event) -> float:
    """Send a worker of a deployment a signal when its log says so; returns when (epoch).

    Raises LookupError when the log had not said so once `ended` is set (the start has ended).
    """
    pattern = re.compile(kill.when)
    while True:
        text = log.read_text(errors="replace") if log.exists() else ""
        if len(pattern.findall(text)) >= kill.occurrence or kill.when == "ready":
            break
        if ended.is_set():
            raise LookupError(f"the log never showed {kill.when!r} {kill.occurrence} times")
        time.sleep(0.01)
    time.sleep(kill.after)
    inside = worker_pids(text, kill.rank)
    with contextlib.closing(connect().client()) as client:
        init = client.api.inspect_container(container_name(load(file, [])))["State"]["Pid"]
    os.kill(_outside(init, inside[-1]), signal.Signals[f"SIG{kill.signal}"])
    return time.time()


def worker_pids(log: str, rank: int) -> list[int]:
    """The numbers of the workers of a rank, as their lines name them; a lone worker says no rank."""
    ranked = [int(pid) for pid in re.findall(rf"\(Worker_TP{rank}(?:_\w+)? pid=(\d+)\)", log)]
    return ranked or ([int(pid) for pid in re.findall(r"\(Worker pid=(\d+)\)", log)] if rank == 0 else [])


def _outside(init: int, inside: int) -> int:
    """The machine's number of the process that has number `inside` in the container of process `init`."""
    space = Path(f"/proc/{init}/ns/pid").readlink()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "ns" / "pid").readlink() == space:
                numbers = re.search(r"(?m)^NSpid:.*\s(\d+)$", (entry / "status").read_text())
                if numbers and int(numbers[1]) == inside:
                    return int(entry.name)
    raise ProcessLookupError(f"no process {inside} in the container")


def log_times(file: Path) -> tuple[list[str], list[float]]:
    """The lines of the deployment's container and when each was printed (epoch)."""
    with contextlib.closing(connect().client()) as client:
        raw = client.containers.get(container_name(load(file, []))).logs(timestamps=True).decode(errors="replace")
    lines, times = [], []
    for row in raw.split("\n"):
        stamp, _, text = row.partition(" ")
        with contextlib.suppress(ValueError):
            times.append(datetime.fromisoformat(stamp[:26].rstrip("Z") + "+00:00").timestamp())
            lines.append(text)
    return lines, times
