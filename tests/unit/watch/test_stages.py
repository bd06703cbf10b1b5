"""The stage tracker against real logs of vLLM 0.16, 0.25 and 0.32, a generated 8-rank start, and hostile lines."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.replay.make_log import Start, make_log
from kit.logs.model import Line, Owner
from kit.watch.feed import Feed, of_file
from kit.watch.model import Snapshot
from kit.watch.patterns import patterns
from kit.watch.stages import Tracker

LOGS = Path(__file__).parents[2] / "data" / "watch"


def spans(
    snapshot: Snapshot, role: str | None = None, rank: int | None = None
) -> list[tuple[str, float, float | None]]:
    found = (
        snapshot.spans
        if role is None
        else next(p.spans for p in snapshot.processes if (p.role, p.rank) == (role, rank))
    )
    return [(s.stage, s.start, s.end) for s in found]


def replay(start: Start) -> Snapshot:
    feed = Feed()
    for at, text in make_log(start):
        feed.bytes((text + "\n").encode(), at)
    return feed.tracker.snapshot()


@pytest.mark.parametrize("mark", patterns().marks, ids=lambda mark: f"{mark.stage}: {mark.example[:40]}")
def test_every_example_is_read_as_its_own_mark(mark) -> None:  # type: ignore[no-untyped-def]
    found = patterns().mark(mark.example)
    assert found is not None and found[0] is mark


@pytest.mark.parametrize("bar", patterns().bars, ids=lambda bar: bar.example)
def test_every_bar_example_is_read_as_its_own(bar) -> None:  # type: ignore[no-untyped-def]
    assert patterns().bar(bar.example) is bar


def test_two_ranks_on_two_gpus_with_nccl_chatter_in_between() -> None:
    now = of_file(LOGS / "v025-gpu-tp2.log")
    assert spans(now)[:9] == [
        ("boot", 0, 0),
        ("config", 0, 17),
        ("processes", 17, 37),
        ("nccl", 37, 40),
        ("load", 40, 40),
        ("draft-load", 40, 41),
        ("profile", 41, 47),
        ("kv-cache", 47, 47),
        ("warmup", 47, 63),
    ]
    assert now.ready_at == 65
    assert spans(now, "worker", 1)[:2] == [("processes", 38, 38), ("nccl", 38, 40)]
    assert now.figures["kv_tokens"] == 1_586_272 and now.figures["kv_gib"] == 6.81
    assert now.figures["nccl"] == "2.28.9" and now.figures["version"] == "0.25.1"
    assert now.figures["engine_s"] == 22.4


def test_a_bare_bar_belongs_to_the_rank_that_loads() -> None:
    feed = Feed()
    text = (LOGS / "v032-cpu-tp2.log").read_bytes()
    cut = text.index(b"Loading safetensors checkpoint shards: 100%") + 100
    feed.bytes(text[:cut], None)
    now = feed.tracker.snapshot()
    assert now.stage == "load"
    assert now.bar is not None and (now.bar.done, now.bar.total) == (1, 1)
    assert [p.rank for p in now.processes if p.bar] == [0]


def test_one_process_that_is_engine_core_and_worker_at_once() -> None:
    now = of_file(LOGS / "v016-cpu-kimi.log")
    assert {p.role for p in now.processes} == {"api_server", "engine_core"}
    assert [s[0] for s in spans(now, "engine_core", 0)][:4] == ["processes", "nccl", "load", "draft-load"]
    assert now.ready_at == 13 and now.figures["kv_tokens"] == 30720


def test_a_second_start_in_one_log_begins_anew() -> None:
    tracker = Tracker()
    for at, (pid, text) in enumerate([(1, "version 0.32.0"), (2, "x"), (9, "version 0.32.0")]):
        tracker.feed(Line(at, f"█ {text}", Owner("api_server", pid=pid)), float(at))
    assert tracker.run == 2
    assert [s.stage for s in tracker.spans] == ["boot", "config"]


def test_generated_start_says_stages_shards_rate_and_figures() -> None:
    now = replay(Start())
    assert [s[0] for s in spans(now)] == [
        "boot", "config", "processes", "nccl", "load", "draft-load", "profile", "compile", "profile", "kv-cache",
        "warmup", "capture", "api", "serving",
    ]  # fmt: skip
    assert ("load", 56.0, 1862.0) in spans(now)
    assert now.ready_at == 2126.0
    assert len([p for p in now.processes if p.role == "worker"]) == 8
    assert now.figures["weights_s"] == 1800.0 and now.figures["drafter_weights_s"] == 4.12
    assert now.figures["model_gib"] == 71.43 and now.figures["graphs_gib"] == 1.13


def test_generated_crash_stays_in_the_stage_it_died_in() -> None:
    now = replay(Start(crash_at=0.83))
    assert now.stage == "load" and now.ready_at is None
    assert now.bar is not None and (now.bar.done, now.bar.total) == (53, 64)
    assert now.bar.left_s == 309 and now.bar.per_s == pytest.approx(64 / 1800, rel=0.01)
    assert now.errors == 13


def test_graph_profiling_before_the_kv_cache_is_no_capture() -> None:
    tracker = Tracker()
    who = Owner("worker", 0, 5)
    tracker.feed(Line(1, "Model loading took 1.0 GiB memory and 2.0 seconds", who), 1.0)
    tracker.feed(Line(2, "Capturing CUDA graphs (PIECEWISE):  50%|##   | 1/2 [00:01<00:01,  1.0s/it]", who), 2.0)
    assert tracker.stage == "profile" and tracker.progress_at == 2.0
    tracker.feed(Line(3, "Available KV cache memory: 1.0 GiB", who), 3.0)
    tracker.feed(Line(4, "Capturing CUDA graphs (PIECEWISE):  50%|##   | 1/2 [00:01<00:01,  1.0s/it]", who), 4.0)
    assert tracker.stage == "capture"


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_any_bytes_in_any_pieces_are_survived(pieces: list[bytes]) -> None:
    feed = Feed()
    for piece in pieces:
        feed.bytes(piece, None)
    feed.finish(None)
    assert feed.tracker.snapshot().run >= 1


@given(st.lists(st.integers(min_value=1, max_value=400), min_size=1, max_size=60))
def test_how_the_log_is_cut_into_pieces_does_not_matter(sizes: list[int]) -> None:
    text = (LOGS / "v016-cpu-kimi.log").read_bytes()
    feed, at = Feed(), 0
    for size in sizes:
        feed.bytes(text[at : at + size], None)
        at += size
    feed.bytes(text[at:], None)
    feed.finish(None)
    assert feed.tracker.snapshot() == of_file(LOGS / "v016-cpu-kimi.log")
