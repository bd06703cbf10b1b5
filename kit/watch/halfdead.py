"""Recognises a server that is half dead: a process that the log named is gone, and the others wait for it; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.watch.model import Process, Snapshot
from kit.watch.processes import ProcessSample

GRACE_S = 3.0  # how long vLLM has to say itself that a process died: its own words name the exit code


@dataclass(frozen=True, slots=True)
class Missing:
    """A process that has ended although the start goes on, and for how many seconds it has been gone."""

    process: Process
    seconds: float

    @property
    def name(self) -> str:
        rank = f" rank {self.process.rank}" if self.process.rank is not None else ""
        return f"{self.process.role.replace('_', ' ')}{rank} (pid {self.process.pid})"


def missing(
    now: Snapshot, alive: Sequence[ProcessSample] | None, at: float, since: dict[int, float]
) -> tuple[Missing, ...]:
    """The engine's processes that are gone for longer than the grace, at `at`.

    `alive`: what the kernel shows of the container (None: nothing can be seen). `since` remembers between
    calls when each pid was first found gone.
    """
    if not alive or now.stage == "shutdown":
        return ()
    there = {p.inner for p in alive if p.state != "Z"}
    found = []
    for process in now.processes:
        pid = process.pid
        if pid is None or process.role not in ("engine_core", "worker", "api_server"):
            continue
        if pid in there:
            since.pop(pid, None)
        elif at - since.setdefault(pid, at) >= GRACE_S:
            found.append(Missing(process, at - since[pid]))
    return tuple(found)
