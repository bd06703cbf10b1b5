"""Estimates: from the bar alone, and with former starts."""

from pathlib import Path

from benchmarks.replay.make_log import Start, make_log
from kit.watch.estimate import estimate
from kit.watch.feed import Feed
from kit.watch.history import former, write
from kit.watch.model import Snapshot


def start_until(second: float) -> Snapshot:
    feed = Feed()
    for at, text in make_log(Start()):
        if at <= second:
            feed.bytes((text + "\n").encode(), at)
    return feed.tracker.snapshot()


def test_the_bar_counts_down_between_its_updates() -> None:
    now = start_until(1000)
    assert now.bar is not None and now.bar.done == 33
    at_bar = now.bar_at
    found = estimate(now, at_bar + 20, [])
    assert found.stage_left_s == now.bar.left_s - 20 if now.bar.left_s else False
    assert found.ready_left_s is None and found.basis == "the progress bar"


def test_the_first_start_knows_nothing_before_the_bar() -> None:
    found = estimate(start_until(20), 21, [])
    assert (found.stage_left_s, found.ready_left_s) == (None, None)


def test_former_starts_fill_in_what_comes_later(tmp_path: Path) -> None:
    done = start_until(10_000)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, done, 2126, ready=True)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "stages.json").write_text("[1]")
    known = former(tmp_path)
    assert len(known) == 2 and known[0]["load"] == 1806.0
    now = start_until(1000)
    found = estimate(now, 1000, known)
    assert found.basis == "the progress bar, 2 former starts"
    assert found.ready_left_s is not None
    assert abs(1000 + found.ready_left_s - 2126) < 30
    early = estimate(start_until(30), 30, known)
    assert early.ready_left_s is not None and abs(30 + early.ready_left_s - 2126) < 5


def test_a_stage_that_lasts_longer_than_ever_is_overdue_and_promises_nothing() -> None:
    known = [{"boot": 8, "config": 16, "processes": 10, "load": 10}]
    found = estimate(start_until(30), 80, known)
    assert found.overdue and found.ready_left_s is None


def test_starts_that_failed_teach_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    write(tmp_path / "a", start_until(500), 500, ready=False)
    assert former(tmp_path) == []
