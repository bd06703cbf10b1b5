"""Follows a container's log in a thread: every byte to a file and to the diagnoser."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kit import files

if TYPE_CHECKING:
    from docker.models.containers import Container

    from kit.logs import Diagnosis


class LogFollower:
    """The log of one start. `end` waits for what is still under way and closes the file."""

    def __init__(self, container: Container, path: Path):
        from kit.logs import Follower

        self.path = path
        self.last_growth = time.monotonic()
        self._follower = Follower()
        self._lock = threading.Lock()
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise files.no_write(path, error) from None
        self._stream = container.logs(stream=True, follow=True, stdout=True, stderr=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def stage(self) -> str:
        with self._lock:
            return self._follower.stage

    @property
    def fatal(self) -> Diagnosis | None:
        """The diagnosis, soon after the first fatal line."""
        with self._lock:
            return self._follower.fatal

    def end(self, wait: float = 3.0) -> None:
        """Read the rest (at most `wait` seconds) and close."""
        self._thread.join(wait)
        with contextlib.suppress(Exception):
            self._stream.close()
        self._thread.join(1)
        self._file.close()

    def finish(self, exit_code: int | None, oom_killed: bool) -> Diagnosis:
        """The diagnosis of the whole log, with what Docker says of the end."""
        with self._lock:
            return self._follower.finish(exit_code=exit_code, oom_killed=oom_killed)

    def _read(self) -> None:
        with contextlib.suppress(Exception):  # a closed stream; the container's state tells the rest
            for chunk in self._stream:
                self._file.write(chunk)
                self._file.flush()
                self.last_growth = time.monotonic()
                with self._lock:
                    self._follower.feed(chunk)
