"""Progress of long reading or writing, with a rate and an estimate: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from kit.cli import out

LINE_EVERY_S = 10.0


@contextlib.contextmanager
def byte_progress(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts bytes as done; any thread may call it. Silent with -q."""
    if out.quiet:
        yield lambda count: None
    elif sys.stderr.isatty():
        with _bar(total, what) as advance:
            yield advance
    else:
        yield _Lines(total, what).advance


@contextlib.contextmanager
def _bar(total: int, what: str) -> Iterator[Callable[[int], None]]:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=out.console(stderr=True)) as progress:
        task = progress.add_task(out.clean(what), total=total)
        yield lambda count: progress.advance(task, count)


class _Lines:
    def __init__(self, total: int, what: str):
        self.total, self.what, self.done = total, what, 0
        self.start = self.said = time.monotonic()
        self.lock = threading.Lock()

    def advance(self, count: int) -> None:
        with self.lock:
            self.done += count
            now = time.monotonic()
            if now - self.said >= LINE_EVERY_S:
                self.said = now
                out.say(progress_line(self.what, self.done, self.total, now - self.start))


def progress_line(what: str, done: int, total: int, seconds: float) -> str:
    """One line of progress: share, amount, rate, time left."""
    rate = done / seconds if seconds > 0 else 0.0
    left = f", {duration((total - done) / rate)} left" if rate and done < total else ""
    return f"{what}: {done / total if total else 1:.0%} of {total / 1e9:.1f} GB, {rate / 1e9:.2f} GB/s{left}"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
