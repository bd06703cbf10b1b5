"""One watched start: takes the log and the machine's figures, keeps the frame that views show and waiting judges."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kit.watch.estimate import Estimate, estimate
from kit.watch.feed import Feed
from kit.watch.halfdead import Missing, gone, missing
from kit.watch.hang import SIGN_AFTER_S, Judgement, judge
from kit.watch.model import Change, Process, Snapshot
from kit.watch.resources import EVERY_S, Resources, Sample, Usage

RECENT_S = 10.0  # over how long the rates that are shown are taken
AGAIN_S = 1.0  # how long a frame holds when the log brings nothing new: looking costs


@dataclass(frozen=True, slots=True)
class Frame:
    """All that is known at one moment of a start; `at` in seconds since the start.

    `sample` and `usage` are what the machine shows (None: nothing), `missing` the processes that are gone.
    """

    at: float
    snapshot: Snapshot
    estimate: Estimate
    judgement: Judgement
    sample: Sample | None
    usage: Usage | None
    missing: tuple[Missing, ...]


class View(Protocol):
    """Something that shows a start: lines, a live screen, JSON events."""

    def changes(self, changes: Sequence[Change], frame: Frame) -> None:
        """What is new since the last call; may be nothing."""

    def close(self, good: bool) -> None:
        """The start is over, well or not; leave the terminal as it was."""


class Session:
    """`take` is called by whoever reads the log, `tick` by whoever waits; both may be different threads."""

    def __init__(
        self,
        views: Sequence[View],
        resources: Resources | None,
        former: Sequence[Mapping[str, float]],
        *,
        stall_timeout: float,
        stage_timeouts: Mapping[str, int],
        feed: Feed | None = None,
    ) -> None:
        self._views = views
        self._resources = resources
        self._former = former
        self._limits = (stall_timeout, stage_timeouts)
        self._lock = threading.Lock()
        self._feed = feed or Feed()
        self._new: list[Change] = []
        self._sampled = -EVERY_S
        self._gone_since: dict[int, float] = {}
        self._frame: Frame | None = None
        self._fresh = True

    def take(self, chunk: bytes, at: float | None) -> None:
        """Take what the log grew by at `at` (None: at the times that its lines tell)."""
        with self._lock:
            self._new += self._feed.bytes(chunk, at)
            self._fresh = True

    def tick(self, at: float) -> Frame:
        """Look at the machine when it is time to, tell the views what is new, and return what is known now (or was a
        moment ago, when nothing has happened since)."""
        with self._lock:
            last, fresh, self._fresh = self._frame, self._fresh, False
        if last is not None and not fresh and at - last.at < AGAIN_S:
            return last
        if self._resources is not None and at - self._sampled >= EVERY_S:
            self._resources.sample(at)
            self._sampled = at
        with self._lock:
            snapshot = self._feed.tracker.snapshot()
            new, self._new = self._new, []
        frame = self._frame = self._look(at, snapshot)
        for view in self._views:
            view.changes(new, frame)
        return frame

    def ended(self, at: float) -> tuple[tuple[Process, ...], int | None]:
        """Looks now: which processes that the log named have ended while others go on, and how many the kernel has
        ended for want of memory (None: cannot be seen)."""
        if self._resources is None:
            return (), None
        sample = self._resources.sample(at)
        return gone(self.snapshot(), sample.processes), self._resources.oom_kills

    def snapshot(self) -> Snapshot:
        """The start as it is now."""
        with self._lock:
            return self._feed.tracker.snapshot()

    def close(self, good: bool) -> None:
        """Close the views; `good`: the start got ready."""
        for view in self._views:
            view.close(good)
        if self._resources is not None:
            self._resources.close()

    def _look(self, at: float, snapshot: Snapshot) -> Frame:
        recent = self._resources.usage(SIGN_AFTER_S) if self._resources else None
        sample = self._resources.last if self._resources else None
        alive = sample.processes if sample else None
        return Frame(
            at, snapshot, estimate(snapshot, at, self._former), judge(snapshot, at, recent, *self._limits),
            sample, self._resources.usage(RECENT_S) if self._resources else None,
            missing(snapshot, alive, at, self._gone_since),
        )  # fmt: skip
