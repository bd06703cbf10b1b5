"""Reads progress bars as tqdm prints them; pure.

Two forms occur: vLLM's own for checkpoint shards (`LABEL:  14% Completed | 1/7 [00:01<00:11,  1.90s/it]`, each
on a line of its own) and tqdm's plain one for graph capture and warm-up (`LABEL:  14%|##  | 1/7 [...]`,
redrawn after a carriage return).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BAR = re.compile(
    r"(?P<label>[^\r\n%|]{2,120}?): +\d{1,3}%(?: Completed)? ?\|(?:[^|\[]*\|)? ?(?P<done>\d+)/(?P<total>\d+) "
    r"\[(?P<elapsed>[\d:]+)<(?P<left>[\d:?]+), *(?P<rate>\?|[\d.]+(?:e[+-]?\d+)?)(?P<unit>s/\w+|\w+/s)"
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One state of a progress bar: items `done` of `total`; `elapsed_s` and `left_s` as the bar itself says
    (`left_s` None while it does not know), `per_s` items a second (None likewise)."""

    label: str
    done: int
    total: int
    elapsed_s: float
    left_s: float | None
    per_s: float | None


def parse_bar(text: str) -> Bar | None:
    """The last bar state in a piece of a line, or None when it holds none."""
    if "%" not in text or "[" not in text:
        return None
    match = _BAR.match(text.rpartition("\r")[2].lstrip())
    if match is None:
        return None
    rate = None if match["rate"] == "?" else float(match["rate"])
    if rate and match["unit"].startswith("s/"):
        rate = 1 / rate
    left = None if "?" in match["left"] else _seconds(match["left"])
    return Bar(match["label"].strip(), int(match["done"]), int(match["total"]), _seconds(match["elapsed"]), left, rate)


def _seconds(text: str) -> float:
    """Seconds of tqdm's [H:]MM:SS."""
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part or 0)
    return float(total)
