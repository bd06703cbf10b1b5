"""Follows a container's log in a thread: every byte to a file, to the diagnoser, and to whoever watches."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kit import files

if TYPE_CHECKING:
    from docker.models.containers import Container

    from kit.logs import Diagnosis
    from kit.logs.host import Host

GRACE_S = 0.6  # how long the lines that explain the first fatal one may take to arrive


class LogFollower:
    """The log of one start. `end` waits for what is still under way and closes the file.

    `take` is called in the thread with each piece as it arrives; `news` is set then. `over` is true once the
    container's output ended, `fault` is what went wrong with following itself.
    """

    def __init__(self, container: Container, path: Path, take: Callable[[bytes], None]):
        from kit.logs import Follower

        self.path = path
        self.news = threading.Event()
        self.over = False
        self.fault: Exception | None = None
        self.bytes = 0
        self._take = take
        self._follower = Follower(grace=GRACE_S)
        self._lock = threading.Lock()
        self._file: BinaryIO = _open(path)
        self._diverted = False
        self._stream = container.logs(stream=True, follow=True, stdout=True, stderr=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def fatal(self) -> Diagnosis | None:
        """The diagnosis, soon after the first fatal line."""
        with self._lock:
            return self._follower.fatal

    @property
    def fatal_since(self) -> float | None:
        """When the first fatal line arrived (time.monotonic), None before that."""
        with self._lock:
            return self._follower.since

    def divert(self, path: Path) -> None:
        """Write what comes from now on to another file, and show it to nobody: the log proper has ended."""
        with self._lock:
            self._file.close()
            self._file, self._diverted = _open(path), True

    def end(self, wait: float = 3.0) -> None:
        """Read the rest (at most `wait` seconds) and close."""
        self._thread.join(wait)
        with contextlib.suppress(Exception):
            self._stream.close()
        self._thread.join(1)
        with self._lock:
            self._file.close()

    def finish(self, exit_code: int | None, oom_killed: bool, host: Host) -> Diagnosis:
        """The diagnosis of the whole log, with what Docker and this `host` say of the end."""
        with self._lock:
            return self._follower.finish(exit_code=exit_code, oom_killed=oom_killed, host=host)

    def _read(self) -> None:
        try:
            for chunk in self._pieces():
                with self._lock:
                    self.bytes += len(chunk)
                    self._file.write(chunk)
                    self._file.flush()
                    if self._diverted:
                        continue
                    self._follower.feed(chunk)
                self._take(chunk)
                self.news.set()
        except Exception as error:  # handed to whoever waits: a thread has nobody to tell
            self.fault = error
        self.over = True
        self.news.set()

    def _pieces(self) -> Iterator[bytes]:
        with contextlib.suppress(Exception):  # a stream that breaks or is closed; the container's state tells the rest
            yield from self._stream


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        raise files.no_write(path, error) from None
