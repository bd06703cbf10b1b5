"""The vocabulary of watching: spans, processes, changes, and a start as it is at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kit.logs.acceptance import Sample
from kit.watch.progress import Bar


@dataclass(frozen=True, slots=True)
class Span:
    """A stage of one process or of the whole start; times in seconds since the start, `end` None while it lasts."""

    stage: str
    start: float
    end: float | None = None


@dataclass(slots=True)
class Process:
    """One process of the engine as its lines show it. Times in seconds since the start.

    `loaded`: its weights (the target's) are read. `said` counts its lines; `last_at` is when it last wrote.
    """

    role: str
    rank: int | None
    pid: int | None
    stage: str
    last_at: float
    spans: list[Span] = field(default_factory=list)
    bar: Bar | None = None
    bar_at: float = 0.0
    loaded: bool = False
    said: int = 0

    def copy(self) -> Process:
        return replace(self, spans=list(self.spans))


@dataclass(frozen=True, slots=True)
class Change:
    """Something new in a start: `kind` is "run", "stage", "bar" or "figure".

    `process` is who showed it, as it was then (None: the start as a whole); `name` is the stage or the figure.
    """

    kind: str
    at: float
    name: str
    process: Process | None = None
    value: float | str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A start as it is now. `stage` is the furthest stage any process announced, in it since `since`.

    `figures` are what the lines measured (GiB, seconds, tokens), `bar` the progress of the stage if there
    is any. `progress_at` is when anything last moved on: a stage, a bar, a figure. `broadcasts` counts the
    "No available shared memory broadcast block" lines since then; `errors` the lines at level ERROR.
    """

    run: int
    stage: str
    since: float
    spans: tuple[Span, ...]
    processes: tuple[Process, ...]
    figures: dict[str, float | str]
    bar: Bar | None
    bar_at: float
    progress_at: float
    last_at: float
    last_text: str
    lines: int
    broadcasts: int
    errors: int
    speculating: bool
    ready_at: float | None
    acceptance: Sample | None
