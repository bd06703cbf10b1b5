"""What a start uses: GPU memory and use, disk reads, CPU. Samples from the edges, and pure sums over them."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit import proc
from kit.errors import KitError
from kit.host.root import host_root, text
from kit.watch.processes import ProcessSample, of_container, oom_kills

EVERY_S = 2.0
KEEP_S = 600.0
_SILENCE_S = 60.0  # NVML's first call may wake eight cards one after another
_SECTOR = 512


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card: memory in MiB, `busy` per cent of the last moment and `pids` (of this machine) of the processes that
    compute on it (None: the card does not tell)."""

    index: int
    used_mib: int
    total_mib: int
    busy: int | None
    pids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen at `at` (seconds since the start). `read_bytes` counts bytes read from disks so far, by the
    container's processes or (`whole_machine`) by anyone; None: cannot be seen. `cpu_s` is their CPU time so far.
    """

    at: float
    gpus: tuple[Gpu, ...]
    processes: tuple[ProcessSample, ...] | None
    read_bytes: int | None
    whole_machine: bool
    cpu_s: float | None


@dataclass(frozen=True, slots=True)
class CardUse:
    """The least and the most use of a card, per cent, over a span; `pids` are the engine's processes on it, by their
    number in the container."""

    index: int
    least: int
    most: int
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Rates over a span of samples: disk bytes and CPU seconds a second, growth of GPU memory (MiB), and the
    lowest use among the engine's cards. None where it cannot be seen. `seconds` is the span's real length.

    `cards`: the use of each of the engine's cards (of all, where the driver does not say whose they are).
    `held`: the processes that were stopped, or in the kernel, in every sample of the span.
    """

    seconds: float
    read_rate: float | None
    cpu_rate: float | None
    gpu_growth_mib: int | None
    gpu_busy: int | None
    cards: tuple[CardUse, ...] = ()
    held: tuple[ProcessSample, ...] = ()


class Resources:
    """Takes samples of a container and keeps the last ten minutes."""

    def __init__(self, init_pid: int, *, gpus: bool, root: Path | None = None) -> None:
        self._pid = init_pid
        self._root = root or host_root()
        self._meter = GpuMeter() if gpus else None
        self._samples: deque[Sample] = deque()
        self.oom_kills: int | None = None  # the last that could be seen: the count goes with the container

    @property
    def last(self) -> Sample | None:
        return self._samples[-1] if self._samples else None

    def sample(self, at: float) -> Sample:
        """Look now."""
        processes = of_container(self._pid, self._root)
        kills = oom_kills(self._pid, self._root)
        self.oom_kills = self.oom_kills if kills is None else kills
        read, whole = None, False
        if processes:
            own = [p.read_bytes for p in processes if p.read_bytes is not None]
            read = self._grown(sum(own)) if own else None
        if read is None:
            read, whole = disk_bytes(self._root), True
        sample = Sample(
            at, self._meter.gpus if self._meter else (), processes, read, whole,
            sum(p.cpu_s for p in processes) if processes else None,
        )  # fmt: skip
        self._samples.append(sample)
        while self._samples[0].at < at - KEEP_S:
            self._samples.popleft()
        return sample

    def usage(self, seconds: float) -> Usage | None:
        """The rates of the last `seconds`; None before there are two samples."""
        return usage(self._samples, seconds)

    def close(self) -> None:
        if self._meter:
            self._meter.close()

    def _grown(self, now: int) -> int:
        """A counter that does not fall when a process ends."""
        last = self.last.read_bytes if self.last and not self.last.whole_machine else None
        return max(now, last or 0)


def usage(samples: Sequence[Sample] | deque[Sample], seconds: float) -> Usage | None:
    """The rates over the last `seconds` of samples."""
    if len(samples) < 2:
        return None
    last = samples[-1]
    first = next(s for s in samples if s.at >= last.at - seconds)
    span = last.at - first.at
    if span <= 0:
        return None
    window = [s for s in samples if s.at >= first.at]
    comparable = first.read_bytes is not None and last.read_bytes is not None
    read = (last.read_bytes or 0) - (first.read_bytes or 0) if first.whole_machine == last.whole_machine else None
    used = [sum(g.used_mib for g in s.gpus) for s in (first, last) if s.gpus]
    cards = _cards(window)
    cpu = last.cpu_s - first.cpu_s if first.cpu_s is not None and last.cpu_s is not None else None
    return Usage(
        seconds=span,
        read_rate=max(0, read) / span if comparable and read is not None else None,
        cpu_rate=max(0.0, cpu) / span if cpu is not None else None,
        gpu_growth_mib=used[1] - used[0] if len(used) == 2 else None,
        gpu_busy=min(card.least for card in cards) if cards else None,
        cards=cards,
        held=_held(window),
    )


def _cards(window: Sequence[Sample]) -> tuple[CardUse, ...]:
    """The use of the engine's cards; of all cards where the driver or the kernel does not say who computes: a driver
    that shows no process at all does not see into containers."""
    inner = {p.pid: p.inner for p in window[-1].processes or ()}
    on = {g.index: tuple(inner[pid] for pid in g.pids or () if pid in inner) for g in window[-1].gpus}
    unsaid = not inner or not any(g.pids for g in window[-1].gpus) or any(g.pids is None for g in window[-1].gpus)
    found = []
    for index, pids in on.items():
        busy = [g.busy for s in window for g in s.gpus if g.index == index and g.busy is not None]
        if busy and (pids or unsaid):
            found.append(CardUse(index, min(busy), max(busy), pids))
    return tuple(found)


def _held(window: Sequence[Sample]) -> tuple[ProcessSample, ...]:
    """The processes that the kernel showed as stopped (T, t) or waiting in it (D) in every sample."""
    held = {p.pid: p for p in window[-1].processes or ()}
    for sample in window:
        still = {p.pid for p in sample.processes or () if p.state in "TtD"}
        held = {pid: p for pid, p in held.items() if pid in still}
    return tuple(held.values())


def disk_bytes(root: Path) -> int | None:
    """Bytes read from all whole disks of this machine since it started, from /proc/diskstats."""
    total, seen = 0, False
    for line in (text(root / "proc/diskstats") or "").splitlines():
        fields = line.split()
        if len(fields) > 5 and (root / "sys/block" / fields[2]).exists() and not fields[2].startswith(("loop", "ram")):
            total, seen = total + int(fields[5]) * _SECTOR, True
    return total if seen else None


def _gpu(item: dict[str, Any]) -> Gpu:
    pids = item.get("pids")
    return Gpu(**item | {"pids": None if pids is None else tuple(pids)})


class GpuMeter:
    """The newest reading of all cards, from a process that asks NVML; `why_not` once that has failed."""

    def __init__(self) -> None:
        self.gpus: tuple[Gpu, ...] = ()
        self.why_not: str | None = None
        self._closed = False
        threading.Thread(target=self._read, daemon=True).start()

    def close(self) -> None:
        """End the asking process at its next line."""
        self._closed = True

    def _read(self) -> None:
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-P", "-m", "kit.watch.gpu_meter", str(EVERY_S)]
        try:
            for line in proc.lines(command, silence=lambda: _SILENCE_S, env={"PYTHONPATH": path}):
                if self._closed:
                    return
                if line.startswith("["):
                    self.gpus = tuple(_gpu(item) for item in json.loads(line))
        except (KitError, OSError, ValueError, TypeError) as error:
            self.gpus, self.why_not = (), str(error)
