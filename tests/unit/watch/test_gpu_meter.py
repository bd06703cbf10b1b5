"""Moving cards under the real nvidia-ml-py, through the process that asks them and the session that judges: a load that
is slow, one that is stuck, and cards that spin are told apart."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.replay.make_log import Start, make_log
from kit.watch import resources
from kit.watch.lines import resources as in_words
from kit.watch.resources import Resources
from kit.watch.session import Frame, Session
from tests.standin import standin
from tests.unit.watch.test_machine import container

CARDS = 2
STEP_S = 5.0


class Box:
    """Two cards whose figures a test moves, and a start that has gone on to `second`."""

    def __init__(self, profile: dict[str, Any], become: Callable[[dict[str, Any]], Path]) -> None:
        self._profile = profile
        self._path = Path(os.environ["KIT_STANDIN_PROFILE"])
        self.root = become(profile)
        container(self.root)
        self.resources = Resources(700, gpus=True, root=self.root)
        self.session = Session([], self.resources, [], stall_timeout=900, stage_timeouts={})
        self.at = 0.0

    def set(self, used_mib: int, busy: int) -> None:
        """Let every card hold so much and be so busy, and wait until the meter has seen it."""
        for i in range(CARDS):
            own = self._profile.setdefault("cards", {}).setdefault(i, {})
            own["memory"], own["utilization"] = {"used": used_mib}, busy
        beside = self._path.with_suffix(".new")
        beside.write_text(standin.flat(self._profile))
        beside.replace(self._path)
        until = time.monotonic() + 20
        while not any(g.busy == busy and g.used_mib // 1024 == (used_mib + 636) // 1024 for g in self.cards()):
            assert time.monotonic() < until, (self.cards(), self.resources)
            time.sleep(0.01)

    def cards(self) -> tuple[resources.Gpu, ...]:
        return self.resources._meter.gpus if self.resources._meter else ()

    def until(self, second: float) -> None:
        """Print the log up to `second`."""
        for at, text in make_log(Start()):
            if self.at < at <= second:
                self.session.take((text + "\n").encode(), at)
        self.at = second

    def read(self, number: int) -> None:
        (self.root / "proc/701/io").write_text(f"read_bytes: {number}\n")

    def quiet(self, seconds: float, each: Callable[[int], None] = lambda step: None) -> Frame:
        """Nothing is printed for so long; the last frame."""
        frame = self.session.tick(self.at)
        for step in range(int(seconds / STEP_S)):
            each(step)
            self.at += STEP_S
            frame = self.session.tick(self.at)
        return frame


@pytest.fixture
def box(machine: Callable[[dict[str, Any]], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    monkeypatch.setattr(resources, "EVERY_S", 0.02)
    profile = standin.load("workstation-2")
    profile["faults"] = {"reread": 1}
    machine(profile)
    made = Box(profile, machine)
    yield made
    made.session.close(True)


def test_memory_that_grows_is_a_slow_load(box: Box) -> None:
    box.until(300)
    frame = box.quiet(120, lambda step: box.set(10240 + 1024 * step, 0))
    assert frame.judgement.verdict == "slow" and "GPU memory grew" in frame.judgement.text
    assert "GPU 6" in in_words(frame.sample, frame.usage) and "use 0 to 0 %" in in_words(frame.sample, frame.usage)


def test_a_disk_that_is_read_is_a_slow_load_although_no_memory_grows(box: Box) -> None:
    box.until(300)
    box.set(10240, 0)
    frame = box.quiet(120, lambda step: box.read((step + 1) * 200_000_000))
    assert frame.judgement.verdict == "slow" and "reads 40 MB/s" in frame.judgement.text


def test_cards_at_full_use_that_take_no_memory_spin(box: Box) -> None:
    box.until(45)  # their communication is being set up
    box.set(2048, 100)
    frame = box.quiet(120)
    found = frame.judgement
    assert (found.verdict, found.sign and found.sign.id) == ("suspect", "gpu-spin")
    assert "use 100 to 100 %" in in_words(frame.sample, frame.usage)
    later = box.quiet(200).judgement
    assert (later.verdict, later.sign and later.sign.category) == ("hung", "gpu-p2p")


def test_idle_cards_an_idle_disk_and_idle_processes_are_stuck(box: Box) -> None:
    box.until(300)
    box.set(10240, 0)
    found = box.quiet(120).judgement
    assert (found.verdict, found.sign and found.sign.id) == ("suspect", "asleep")
    later = box.quiet(900).judgement
    assert (later.verdict, later.sign and later.sign.category) == ("hung", "timeout-hang")


def test_a_card_that_does_not_tell_its_use_is_no_reason_to_go_blind(
    machine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "EVERY_S", 0.02)
    root = machine("fault-mig-on-one")
    seen = Resources(0, gpus=True, root=root)
    until = time.monotonic() + 20
    while not (seen._meter and seen._meter.gpus):
        assert time.monotonic() < until, seen._meter and seen._meter.why_not
        time.sleep(0.01)
    assert {g.total_mib > 0 for g in seen._meter.gpus} == {True}
    seen.close()


def test_without_a_driver_the_meter_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Resources(0, gpus=True, root=tmp_path)
    until = time.monotonic() + 20
    while not (seen._meter and seen._meter.why_not):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert seen.sample(0.0).gpus == ()
