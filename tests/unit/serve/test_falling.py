"""A server whose drafter gets worse over hours, asked over HTTP as `kit status` and `kit watch` ask it."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from kit.serve import readings
from kit.serve.api import Api
from kit.smoke.counters import parse

PER_MINUTE = 600  # drafts of five tokens


class Server(http.server.ThreadingHTTPServer):
    """Its clock is the test's: `work` lets minutes pass in which so many tokens of each draft are accepted."""

    drafts = accepted = 0

    def work(self, minutes: int, each: float) -> None:
        self.drafts += minutes * PER_MINUTE
        self.accepted += round(minutes * PER_MINUTE * each)


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        drafts, accepted = self.server.drafts, self.server.accepted
        names = {"drafts": drafts, "draft_tokens": drafts * 5, "accepted_tokens": accepted}
        body = "".join(
            f'# TYPE vllm:spec_decode_num_{name} counter\nvllm:spec_decode_num_{name}_total{{engine="0"}} {value}.0\n'
            for name, value in names.items()
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


class Watched:
    """The server, and what is said of it; `now` in seconds."""

    def __init__(self, server: Server, path: Path) -> None:
        self.server, self.path, self.now = server, path, 1e9
        self.api = Api(f"http://127.0.0.1:{server.server_port}")

    def look(self, started: str = "a") -> str | None:
        counted = parse(self.api.metrics())
        return readings.falling(readings.note(self.path, counted, started, self.now), started)

    def hours(self, hours: float, first: float, last: float, noise: float = 0.0) -> str | None:
        """Look every five minutes while the accepted tokens of a draft go from `first` to `last`."""
        looks = int(hours * 12)
        said = None
        for number in range(looks):
            shaken = noise * (1 if number % 2 else -1)
            self.server.work(5, first + (last - first) * number / looks + shaken)
            self.now += 300
            said = self.look()
        return said


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Watched(server, tmp_path / "readings.jsonl")
    server.shutdown()
    server.server_close()


def test_a_fall_within_three_hours_is_noticed_after_a_good_day(watched: Watched) -> None:
    assert watched.hours(20, 2.0, 2.0, noise=0.3) is None
    said = watched.hours(3, 2.0, 0.7, noise=0.1)
    assert said is not None and "fell from" in said and said.endswith("in 3:00:00 h")


def test_a_slow_fall_over_a_day_is_noticed(watched: Watched) -> None:
    said = watched.hours(24, 2.2, 0.8, noise=0.1)
    assert said is not None and "fell from" in said


def test_a_drafter_that_wavers_is_well(watched: Watched) -> None:
    for _ in range(6):
        assert watched.hours(1, 2.0, 1.6) is None
        assert watched.hours(1, 1.6, 2.0) is None


def test_a_new_container_begins_anew(watched: Watched) -> None:
    assert watched.hours(3, 2.0, 0.7) is not None
    watched.now += 300
    assert watched.look(started="b") is None


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe", b"[" * 100_000, b"[1]", b"null", b'{"time": NaN, "started": "x", "drafts": 1}', b'{"time": "x"}'],
)
def test_readings_that_are_none_are_skipped(tmp_path: Path, line: bytes) -> None:
    good = readings.Reading(1.0, "x", 1, 5, 2)
    path = tmp_path / "readings.jsonl"
    path.write_bytes(json.dumps(asdict(good)).encode() + b"\n" + line + b"\n")
    assert readings.load(path) == [good]
