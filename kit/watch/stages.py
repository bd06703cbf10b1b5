"""Which stage each process of a start is in, how far, and what it measured: a pure tracker fed with lines.

It says only what the log said: a process is in the stage that its own last mark showed. Ranks other
than 0 print few marks, so the stage of the whole start is the furthest one that any process announced.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kit.logs.acceptance import Sample
from kit.logs.acceptance import parse as parse_acceptance
from kit.logs.model import Line, Owner
from kit.logs.signals import ACCEPTANCE, HANG
from kit.watch.model import Change, Process, Snapshot, Span
from kit.watch.patterns import Mark, Patterns, patterns
from kit.watch.progress import Bar, parse_bar

_MOST_PROCESSES = 512
_MOST_SPANS = 64


class Tracker:
    """Feed it lines in order with their times (seconds since the start); ask `snapshot` at any moment."""

    def __init__(self, known: Patterns | None = None) -> None:
        self._known = known or patterns()
        self._order = {name: stage.order for name, stage in self._known.stages.items()}
        self.run = self.lines = 0
        self._begin(0.0)

    def _begin(self, at: float) -> None:
        self.run += 1
        self.processes: dict[object, Process] = {}
        self.stage, self.since = "boot", at
        self.spans = [Span("boot", at)]
        self.figures: dict[str, float | str] = {}
        self.progress_at = self.last_at = at
        self.last_text = ""
        self.broadcasts = self.errors = 0
        self.speculating = False
        self.ready_at: float | None = None
        self.acceptance: Sample | None = None
        self._loader: Process | None = None
        self._racing: Owner | None = None

    def feed(self, line: Line, at: float) -> list[Change]:
        """Take one line; returns what it changed. `at` never goes backwards."""
        self.lines = line.number
        self.last_at = at
        if line.text.strip():
            self.last_text = line.text
        owner = self._owner(line)
        process = self._of(owner)
        if process is not None and owner is not None:
            process.said += 1
            process.last_at = at
            process.rank = owner.rank if process.rank is None else process.rank
        bar = parse_bar(line.text)
        if bar is not None:
            return self._bar(bar, process or self._loader, at)
        if line.level in ("ERROR", "CRITICAL"):
            self.errors += 1
        if HANG in line.text:
            self.broadcasts += 1
            return []
        if self.stage == "serving" and ACCEPTANCE in line.text:
            self.acceptance = parse_acceptance(line) or self.acceptance
            return []
        found = self._known.mark(line.text) if line.text and line.level not in ("ERROR", "WARNING") else None
        return self._mark(*found, owner, at) if found else self._first_line(owner, at)

    def snapshot(self) -> Snapshot:
        """A copy that later lines do not change."""
        lead = self._loader
        return Snapshot(
            self.run, self.stage, self.since, tuple(self.spans), tuple(p.copy() for p in self.processes.values()),
            dict(self.figures), lead.bar if lead else None, lead.bar_at if lead else 0.0, self.progress_at,
            self.last_at, self.last_text, self.lines, self.broadcasts, self.errors, self.speculating,
            self.ready_at, self.acceptance,
        )  # fmt: skip

    # -- who wrote it -----------------------------------------------------------------------------------------

    def _owner(self, line: Line) -> Owner | None:
        """Who wrote a line. Of two prefixes on one line the second one's text stands bare on the next line."""
        owner, racing = line.owner, self._racing
        self._racing = line.race
        return racing if racing is not None and (owner is None or owner.pid is None) else owner

    def _of(self, owner: Owner | None) -> Process | None:
        """The process of an owner, as far as it is known already."""
        if owner is None:
            return None
        if owner.pid is not None:
            return self.processes.get(owner.pid)
        if any(p.pid is not None for p in self.processes.values()):
            return None  # a line from before its process set its prefix: it could be anyone's
        same = [p for p in self.processes.values() if p.role == owner.role]
        return same[0] if len(same) == 1 else None

    def _enter(self, owner: Owner | None, at: float) -> Process | None:
        """The process of an owner, made when it is new."""
        process = self._of(owner)
        if process is not None or owner is None or owner.role not in ("api_server", "engine_core", "worker"):
            return process
        if owner.pid is None and self.processes:
            return None
        if len(self.processes) >= _MOST_PROCESSES:
            return None
        key: object = owner.pid if owner.pid is not None else (owner.role, owner.rank)
        stage = "config" if owner.role == "api_server" else "processes"
        process = Process(owner.role, owner.rank, owner.pid, stage, at, [Span(stage, at)], said=1)
        return self.processes.setdefault(key, process)

    def _first_line(self, owner: Owner | None, at: float) -> list[Change]:
        """A line that marks nothing still shows that its process has begun."""
        if owner is None or owner.pid is None or owner.pid in self.processes or self.stage in ("serving", "shutdown"):
            return []
        process = self._enter(owner, at)
        if process is None:
            return []
        return [Change("stage", at, process.stage, process.copy()), *self._advance(process.stage, at)]

    # -- what it shows ----------------------------------------------------------------------------------------

    def _mark(self, mark: Mark, match: re.Match[str], owner: Owner | None, at: float) -> list[Change]:
        changes: list[Change] = []
        again = owner is not None and any(
            p.role == "api_server" and p.pid != owner.pid for p in self.processes.values()
        )
        if mark.start and (again or self._order[self.stage] > self._order["config"]):
            self._begin(at)
            changes.append(Change("run", at, "config", None, float(self.run)))
        groups: dict[str, str | None] = match.groupdict()
        process = self._enter(owner, at)
        stage = mark.stage
        if process is not None:
            if groups.get("rank") is not None:
                process.rank = int(str(groups["rank"]))
            draft = mark.draft and process.loaded and self.speculating
            if draft or (stage == "load" and process.stage == "draft-load"):
                stage = "draft-load"
            if mark.loaded:
                process.loaded = True
        else:
            draft = False
        if match.string.startswith("Initializing") and "speculative_config=SpeculativeConfig" in match.string:
            self.speculating = True
        changes += self._figures(groups, draft, process, at)
        changes += self._move(process, stage, at, mark.back)
        return changes

    def _figures(self, groups: dict[str, str | None], draft: bool, process: Process | None, at: float) -> list[Change]:
        changes = []
        for name, text in groups.items():
            if text is None or name == "rank":
                continue
            name = f"drafter_{name}" if draft else name
            value = _number(text)
            if self.figures.get(name) != value:
                # of several ranks the first one's figure stays: they differ by little
                known = self.figures.setdefault(name, value)
                self.progress_at = at
                if known == value:
                    changes.append(Change("figure", at, name, process and process.copy(), value))
        return changes

    def _move(self, process: Process | None, stage: str, at: float, back: bool) -> list[Change]:
        changes: list[Change] = []
        if process is not None and process.stage != stage:
            forward = self._order[stage] > self._order[process.stage]
            if forward or (back and process.stage == "compile"):
                _switch(process.spans, stage, at)
                process.stage, process.bar = stage, None
                self.broadcasts, self.progress_at = 0, at
                changes.append(Change("stage", at, stage, process.copy()))
        if process is not None and process.stage in ("load", "draft-load", "warmup", "capture"):
            lead = self._loader
            if lead is None or lead is process or _rank(process) <= _rank(lead):
                self._loader = process
        return changes + self._advance(stage, at, back)

    def _advance(self, stage: str, at: float, back: bool = False) -> list[Change]:
        """Move the start as a whole on to `stage`, when that is further (or a way back that is allowed)."""
        if stage == self.stage:
            return []
        if self._order[stage] <= self._order[self.stage] and not (back and self.stage == "compile"):
            return []
        _switch(self.spans, stage, at)
        self.stage, self.since = stage, at
        self.progress_at, self.broadcasts = at, 0
        self._others_wait(stage, at)
        if stage == "serving":
            self.ready_at = at
        return [Change("stage", at, stage)]

    def _others_wait(self, stage: str, at: float) -> None:
        """End the spans of processes that have done their part when the start reaches `stage`."""
        if stage in ("api", "serving", "shutdown"):
            done = {"worker", "engine_core"} if stage == "api" else {"worker", "engine_core", "api_server"}
            self._loader = None
        else:
            started = {p.role for p in self.processes.values()}
            done = {"api_server"} if "engine_core" in started or "worker" in started else set()
            if "worker" in started and stage not in ("boot", "config", "processes"):
                done.add("engine_core")
        for process in self.processes.values():
            if process.role in done and (process.stage != stage or process.role != "api_server"):
                _close(process.spans, at)

    def _bar(self, bar: Bar, process: Process | None, at: float) -> list[Change]:
        mark = self._known.bar(bar.label)
        self.progress_at, self.broadcasts = at, 0
        if mark is None or (mark.after and self._order[self.stage] < self._order[mark.after]):
            return []
        stage = mark.stage
        if process is None:
            return self._advance(stage, at)
        if stage == "load" and (process.stage == "draft-load" or (process.loaded and self.speculating)):
            stage = "draft-load"
        changes = self._move(process, stage, at, False)
        if process.bar != bar and process.stage == stage:
            process.bar, process.bar_at = bar, at
            changes.append(Change("bar", at, stage, process.copy()))
        return changes


def _switch(spans: list[Span], stage: str, at: float) -> None:
    _close(spans, at)
    spans.append(Span(stage, at))
    if len(spans) > _MOST_SPANS:
        del spans[1]


def _close(spans: list[Span], at: float) -> None:
    if spans and spans[-1].end is None:
        spans[-1] = replace(spans[-1], end=at)


def _rank(process: Process) -> int:
    return process.rank if process.rank is not None else -1


def _number(text: str) -> float | str:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text
