"""The time a log's own lines tell: `MM-DD HH:MM:SS` of vLLM's headers, as seconds since the first one; pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_STAMP = re.compile(
    r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"(?:(?P<year>\d{4})-)?(?P<month>\d\d)-(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)(?P<part>[.,]\d+)? "
)
_FAR = 400  # no prefixes push the header further into a line


class LogClock:
    """Turns the stamps of lines into seconds since the first stamp; a line without one has the time of the
    line before it. Times never go backwards: processes write in no strict order. `began` is the first stamp
    (year 1904 when the log names none: a leap year, so that every day exists).
    """

    def __init__(self) -> None:
        self.began: datetime | None = None
        self.now = 0.0

    def at(self, raw: str) -> float:
        """Seconds since the first stamp for a line as it was printed."""
        moment = _parse(raw)
        if moment is None:
            return self.now
        if self.began is None:
            self.began = moment
        if moment < self.began - timedelta(days=180):  # a start over New Year
            moment += timedelta(days=366 if self.began.year == 1904 else 365)
        self.now = max(self.now, (moment - self.began).total_seconds())
        return self.now


def _parse(raw: str) -> datetime | None:
    match = _STAMP.search(raw, 0, _FAR)
    if match is None:
        return None
    part = (match["part"] or ".0").replace(",", ".")
    try:
        whole = datetime.fromisoformat(f"{match['year'] or 1904}-{match['month']}-{match['day']} {match['time']}")
    except ValueError:
        return None
    return whole + timedelta(seconds=float(part))
