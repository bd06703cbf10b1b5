"""`kit watch`: looks again and again at what a deployment does; in a terminal as a screen, elsewhere as lines."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kit.cli import out
from kit.config import Deployment
from kit.errors import MissingError
from kit.render.container import container_name
from kit.serve import container as box
from kit.serve.api import api_of
from kit.serve.status import EXIT, Status, status
from kit.watch import history
from kit.watch.lines import resources as in_words
from kit.watch.resources import Resources
from kit.watch.service import History, line, screen
from kit.watch.session import Session

if TYPE_CHECKING:
    from docker import DockerClient
    from rich.live import Live

SHOWN_S = 10.0  # over how long the rates of disk and CPU are taken
LOG_EVERY_S = 10.0  # the end of a log is long, and most looks find nothing new in it


def watch(deployment: Deployment, *, every: float, count: int | None) -> int:
    """Watch until Ctrl-C or `count` looks; returns the exit code of the last look, as `kit status` would.

    Raises MissingError when there is nothing to watch.
    """
    from kit.engine import connect

    api = api_of(deployment)
    with contextlib.closing(connect(out.say).client()) as client:
        found = box.find(client, container_name(deployment))
        if found is None:
            raise MissingError(f"{deployment.name} has no container", hint="kit up")
        gpus = deployment.kit.engine.device == "cuda"
        pid = box.state(client, str(found.id)).pid
        used = Resources(pid, gpus=gpus)
        looks, seen = History(), 0
        start: _Start | None = None
        before, read_at = None, 0.0
        with _live() as live:
            try:
                while True:
                    before = before if time.monotonic() < read_at + LOG_EVERY_S else None
                    now = status(deployment, client, api, before)
                    if before is None:
                        read_at = time.monotonic()
                    before = now
                    if now.container and now.container.pid not in (0, pid):  # restarted: other processes, another log
                        used.close()
                        pid = now.container.pid
                        used = Resources(pid, gpus=gpus)
                    used.sample(time.monotonic())
                    if start is not None and (now.verdict == "ready" or start.over):
                        start.close()
                        start = None
                    if now.verdict == "not-ready" and start is None:
                        start = _Start(deployment, client)
                    _show(deployment, live, now, looks, used, start)
                    seen += 1
                    if (count and seen >= count) or now.verdict in ("dead", "absent"):
                        break
                    time.sleep(every)
            except KeyboardInterrupt:
                return EXIT[now.verdict] if seen else 0
            finally:
                used.close()
        if now.verdict == "dead":
            out.say("next:  kit diagnose")
        return EXIT[now.verdict]


def _show(
    deployment: Deployment, live: Live | None, now: Status, looks: History, used: Resources, start: _Start | None
) -> None:
    rates = looks.look(time.monotonic(), now)
    if start is not None and start.under_way:
        start.show(live)
    elif live is None:
        out.data(f"{time.strftime('%H:%M:%S')}  {out.clean(line(now, rates))}")
    else:
        words = in_words(used.last, used.usage(SHOWN_S))
        live.update(screen(deployment.name, now, looks, rates, words), refresh=True)


@contextlib.contextmanager
def _live():  # type: ignore[no-untyped-def]
    """A live screen in a terminal, None elsewhere."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.live import Live

    with Live(console=out.console(), auto_refresh=False, screen=False) as live:
        yield live


def _time(stamp: str) -> datetime:
    """An engine's time, without the nanoseconds; UTC."""
    return datetime.fromisoformat(stamp[:26].rstrip("Z"))


class _Start:
    """A start that is under way, read from the container's log from its beginning, by the engine's times of its lines:
    progress bars bear none of their own."""

    def __init__(self, deployment: Deployment, client: DockerClient) -> None:
        self._name = deployment.name
        limits = deployment.kit.limits
        self._session = Session(
            (),
            None,
            history.former(deployment.runs),
            stall_timeout=limits.stall_timeout,
            stage_timeouts={str(name): seconds for name, seconds in limits.stage_timeouts.items()},
        )
        found = box.find(client, container_name(deployment))
        assert found is not None
        self.over = False
        self._began = _time(box.state(client, str(found.id)).started_at)
        self._stream = found.logs(stream=True, follow=True, timestamps=True, since=self._began)
        threading.Thread(target=self._read, daemon=True).start()

    def close(self) -> None:
        """Follow the log no longer."""
        with contextlib.suppress(Exception):
            self._stream.close()

    @property
    def under_way(self) -> bool:
        """Whether it is not up yet: what served and does no more is no start."""
        return self._session.snapshot().stage not in ("serving", "shutdown")

    def show(self, live: Live | None) -> None:
        from kit.watch.lines import outlook, progress, title
        from kit.watch.live import screen as start_screen

        frame = self._session.tick((datetime.now(UTC).replace(tzinfo=None) - self._began).total_seconds())
        if live is not None:
            live.update(start_screen(self._name, frame), refresh=True)
            return
        parts = [title(frame.snapshot.stage), progress(frame.snapshot, frame), outlook(frame), frame.judgement.text]
        out.data(f"{time.strftime('%H:%M:%S')}  starting: " + out.clean("; ".join(p for p in parts if p)))

    def _read(self) -> None:
        rest = b""
        with contextlib.suppress(Exception):  # the container ended: the next look says so
            for chunk in self._stream:
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    stamp, _, text = line.partition(b" ")
                    at = (_time(stamp.decode()) - self._began).total_seconds()
                    self._session.take(text + b"\n", max(0.0, at))
        self.over = True
