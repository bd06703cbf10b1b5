"""Where the processes of a start that hangs stand: an edge, used only when the start is being given up.

Three sources, as far as each is there: py-spy on this machine (beside the kit or on PATH; of a container's
processes it needs root), the kernel's wait channels in /proc, and
Python's faulthandler inside the container (the kit starts vLLM with PYTHONFAULTHANDLER=1): a process that
gets SIGABRT prints the stacks of all its threads and ends.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kit import proc
from kit.errors import KitError, MissingError
from kit.host.root import host_root, text
from kit.watch.model import Process
from kit.watch.processes import ProcessSample

if TYPE_CHECKING:
    from docker.models.containers import Container

_EACH_S = 20.0
_PRINT_S = 3.0


def from_outside(samples: Sequence[ProcessSample], root: Path | None = None) -> str:
    """What this machine can tell of each process without disturbing it: py-spy's stacks, threads by state."""
    root = root or host_root()
    parts = []
    for sample in samples:
        parts.append(f"== {sample.name} pid {sample.inner} (here {sample.pid}), state {sample.state}")
        parts += [f"   {line}" for line in _threads(root, sample.pid)]
        try:
            parts.append(proc.run(py_spy(sample), timeout=_EACH_S).out)
        except MissingError:
            continue
        except KitError as error:
            said = next((line for line in error.evidence[1:] if line.strip()), "")
            parts.append(f"   {error.message}: {said.strip()}")
    return "\n".join(parts) + "\n"


def py_spy(sample: ProcessSample) -> list[str]:
    """The command that prints a process's Python stacks. A stopped one cannot be stopped again to be read."""
    beside = Path(sys.executable).with_name("py-spy")
    stopped = ["--nonblocking"] if sample.state in ("T", "t") else []
    return [str(beside) if beside.exists() else "py-spy", "dump", *stopped, "--pid", str(sample.pid)]


def _threads(root: Path, pid: int) -> list[str]:
    """Threads counted by (name, state, wait channel), most frequent first."""
    found: Counter[tuple[str, str, str]] = Counter()
    with contextlib.suppress(OSError):
        for task in (root / f"proc/{pid}/task").iterdir():
            stat = text(task / "stat") or ""
            state = stat[stat.rindex(")") + 2 : stat.rindex(")") + 3] if ")" in stat else "?"
            found[(text(task / "comm") or "?", state, text(task / "wchan") or "?")] += 1
    return [f"{count:4} x {name} {state} in {wait}" for (name, state, wait), count in found.most_common(12)]


def from_inside(container: Container, processes: Sequence[Process], length: Callable[[], int]) -> None:
    """Ask Python's faulthandler in every engine process for its stacks, and wait while they are printed.

    They go to the container's log; `length` says how long that is now. The processes end by this, stopped ones too.
    """
    pids = [str(p.pid) for p in processes if p.pid is not None]
    if not pids:
        return
    with contextlib.suppress(Exception):  # the container may be gone, or have no shell: then there are no stacks
        container.exec_run(["/bin/bash", "-c", 'kill -ABRT "$@"; kill -CONT "$@"', "kill", *pids])
        before, until = -1, time.monotonic() + _PRINT_S
        while time.monotonic() < until and length() != before:
            before = length()
            time.sleep(0.5)
