"""From bytes of a log to the tracker: live, with the time of arrival, or from a file, with the log's own time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kit.logs import inputs
from kit.logs.model import Line
from kit.logs.prefixes import Names
from kit.logs.reading import Splitter
from kit.watch.clock import LogClock
from kit.watch.model import Change, Snapshot
from kit.watch.stages import Tracker


class Feed:
    """Feeds a tracker with what a log grew by."""

    def __init__(self, tracker: Tracker | None = None) -> None:
        self.tracker = tracker or Tracker()
        self.clock = LogClock()
        self._names = Names()
        self._splitter = Splitter()

    def bytes(self, chunk: bytes, at: float | None) -> list[Change]:
        """Take bytes that arrived at `at` (seconds since the start; None: the time that the lines tell)."""
        changes: list[Change] = []
        for number, raw in self._splitter.feed(chunk):
            changes += self._line(number, raw, at)
        return changes

    def finish(self, at: float | None) -> list[Change]:
        """The log ends: take the last line, if no newline ended it."""
        return [change for number, raw in self._splitter.finish() for change in self._line(number, raw, at)]

    def _line(self, number: int, raw: str, at: float | None) -> list[Change]:
        changes: list[Change] = []
        told = self.clock.at(raw)
        for line in read(self._names, number, raw):
            changes += self.tracker.feed(line, told if at is None else at)
        return changes


def read(names: Names, number: int, raw: str) -> list[Line]:
    """One raw line; a progress bar keeps the process that stands before its carriage return."""
    lines = names.read(number, raw)
    if "\r" in raw and lines[-1].owner is None:
        owner = names.read(number, raw.split("\r", 1)[0])[-1].owner
        if owner is not None:
            lines[-1] = replace(lines[-1], owner=owner)
    return lines


def of_file(path: Path) -> Snapshot:
    """The whole log of a file, packed or not, by its own times. Raises OSError."""
    feed = Feed()
    for chunk in inputs.chunks(path):
        feed.bytes(chunk, None)
    feed.finish(None)
    return feed.tracker.snapshot()
