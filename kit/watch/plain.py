"""A start as plain lines, for pipes, logs of CI, and terminals that cannot redraw."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kit.watch import lines
from kit.watch.model import Change
from kit.watch.session import Frame

PROGRESS_EVERY_S = 30.0
PROGRESS_STEP = 0.1


class Plain:
    """A line for each stage, for a tenth of a progress bar or half a minute of it, for each figure and each worry."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._bar_at, self._bar_share = 0.0, 0.0
        self._worry = ""

    def changes(self, changes: Sequence[Change], frame: Frame) -> None:
        for change in changes:
            if change.kind == "run":
                self._line(change.at, f"the engine started anew (run {int(change.value or 0)})")
            elif change.kind == "stage" and change.process is None and change.name != "shutdown":
                self._line(change.at, lines.title(change.name))
                self._bar_share = 0.0
            elif change.kind == "figure" and change.value is not None:
                text = lines.figure(change.name, change.value)
                if text:
                    self._line(change.at, f"  {text}")
        self._progress(frame)
        self._judge(frame)

    def close(self, good: bool) -> None:
        """Nothing is held open."""

    def _progress(self, frame: Frame) -> None:
        bar = frame.snapshot.bar
        if bar is None or bar.total < 2 or not bar.done:
            return
        share = bar.done / bar.total
        if share - self._bar_share >= PROGRESS_STEP or (
            share > self._bar_share and frame.at - self._bar_at >= PROGRESS_EVERY_S
        ):
            self._bar_at, self._bar_share = frame.at, share
            more = lines.resources(frame.sample, frame.usage)
            self._line(frame.at, f"  {lines.progress(frame.snapshot, frame)}" + (f"   [{more}]" if more else ""))

    def _judge(self, frame: Frame) -> None:
        text = frame.judgement.text if frame.judgement.verdict in ("slow", "suspect") else ""
        if frame.missing:
            text = f"{frame.missing[0].name} is gone"
        key = frame.judgement.sign.id if frame.judgement.sign and text else text
        if text and key != self._worry:
            self._line(frame.at, f"  {text}")
        self._worry = key

    def _line(self, at: float, text: str) -> None:
        self._say(f"{at:7.1f} s  {text}")
