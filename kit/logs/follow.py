"""The same engine over a growing log: `kit up` feeds it what the container prints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from kit.logs import causes
from kit.logs.diagnose import conclude
from kit.logs.host import ContainerState, Host
from kit.logs.model import Diagnosis
from kit.logs.reader import Reader
from kit.logs.reading import Splitter
from kit.logs.rules import Rule, load

# How long a fatal line may wait for the rest of its traceback and for what explains it, seconds.
GRACE = 1.0


class Follower:
    """Feed it bytes as they come; it says the stage, and `fatal` once the run cannot recover.

    Memory is constant. `grace` (seconds) is how long after the first fatal line `fatal` waits for
    the lines that explain it; `clock` is for tests.
    """

    def __init__(
        self, *, rules: Sequence[Rule] | None = None, grace: float = GRACE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rules = load() if rules is None else rules
        self._grace = grace
        self._clock = clock
        self._reader = Reader()
        self._splitter = Splitter()
        self._since: float | None = None
        self._counted = (0, 0)
        self._fed = clock()
        self._open = False

    def feed(self, chunk: bytes) -> None:
        """Take what the log grew by."""
        for number, text in self._splitter.feed(chunk):
            self._reader.feed(number, text)
        self._fed, self._open = self._clock(), True
        self._count()

    def _count(self) -> None:
        run = self._reader.run
        counted = (run.number, sum(f.fatal for f in run.failures))
        if counted != self._counted:
            self._counted = counted
            if run.number != self._counted[0] or counted[1] == 0:
                self._since = None
            elif self._since is None:
                self._since = self._fed

    @property
    def since(self) -> float | None:
        """When the first line arrived that the present run did not survive, by the clock; None before that."""
        return self._since

    @property
    def stage(self) -> str:
        """The stage the present run is in."""
        return self._reader.run.stage

    @property
    def ready(self) -> bool:
        """Whether the server of the present run has come up."""
        return self._reader.run.ready is not None

    @property
    def lines(self) -> int:
        """Whole lines taken so far."""
        return self._reader.lines

    @property
    def fatal(self) -> Diagnosis | None:
        """The diagnosis once the present run has failed for good and the grace is over, else None."""
        if self._open and self._clock() - self._fed >= self._grace / 2:
            self._reader.finish()  # silence ends a traceback that was a process's last words
            self._open = False
            self._count()
        if self._since is None or self._clock() - self._since < self._grace:
            return None
        if causes.find(self._reader.run, self._rules, complete=False) is None:
            return None
        return conclude(self._reader, self._rules, complete=False)

    def finish(self, exit_code: int | None = None, oom_killed: bool = False, host: Host | None = None) -> Diagnosis:
        """The log ends: the diagnosis of the last run, with what the container's state and the `host` add."""
        for number, text in self._splitter.finish():
            self._reader.feed(number, text)
        self._reader.finish()
        ended = exit_code is not None or oom_killed
        beside = replace(host or Host(), container=ContainerState(not ended, exit_code, oom_killed))
        return conclude(self._reader, self._rules, beside=beside, complete=ended)
