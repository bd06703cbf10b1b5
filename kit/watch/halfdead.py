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
    if now.stage == "shutdown":
        return ()
    absent = {process.pid: process for process in gone(now, alive)}
    for pid in [pid for pid in since if pid not in absent]:
        del since[pid]
    return tuple(
        Missing(process, at - since[pid])
        for pid, process in absent.items()
        if pid is not None and at - since.setdefault(pid, at) >= GRACE_S
    )


def gone(now: Snapshot, alive: Sequence[ProcessSample] | None) -> tuple[Process, ...]:
    """The engine's processes that the log named and the kernel does not show (any more) beside others that it does."""
    if not alive:
        return ()
    there = {p.inner for p in alive if p.state != "Z"}
    return tuple(
        p
        for p in now.processes
        if p.pid is not None and p.pid not in there and p.role in ("engine_core", "worker", "api_server")
    )
