"""Slow or stuck: the judgement over snapshots and resource rates."""

import pytest

from benchmarks.replay.make_log import Start, make_log
from kit.watch.feed import Feed
from kit.watch.hang import judge, limit, signs, standstill
from kit.watch.model import Snapshot
from kit.watch.patterns import patterns
from kit.watch.processes import ProcessSample
from kit.watch.resources import CardUse, Gpu, Sample, Usage, usage

IDLE = Usage(60, 0.0, 0.0, 0, 0)


def start_until(second: float, more: tuple[str, ...] = ()) -> Snapshot:
    feed = Feed()
    for at, text in make_log(Start()):
        if at <= second:
            feed.bytes((text + "\n").encode(), at)
    for text in more:
        feed.bytes((text + "\n").encode(), second)
    return feed.tracker.snapshot()


def test_a_start_that_prints_is_well() -> None:
    assert judge(start_until(300), 310, IDLE, 900, {}).verdict == "ok"


def test_a_slow_disk_is_slow_for_as_long_as_it_takes() -> None:
    now = start_until(300)
    found = judge(now, 300 + 5000, Usage(60, 40e6, 0.1, 0, 0), 900, {})
    assert found.verdict == "slow" and "40 MB/s" in found.text


def test_growing_gpu_memory_is_slow_not_stuck() -> None:
    found = judge(start_until(300), 5000, Usage(60, None, None, 900, 0), 900, {})
    assert found.verdict == "slow" and "900 MiB" in found.text


def test_cards_that_spin_after_nccl_point_to_peer_to_peer() -> None:
    now = start_until(45)
    spin = Usage(60, 0.0, 8.0, 0, 100)
    early, late = judge(now, 45 + 70, spin, 900, {}), judge(now, 45 + 301, spin, 900, {})
    assert (early.verdict, early.sign and early.sign.id) == ("suspect", "gpu-spin")
    assert (late.verdict, late.sign and late.sign.category) == ("hung", "gpu-p2p")
    assert any("NCCL_P2P_DISABLE" in line for line in signs()["gpu-spin"].remedy)


def pid_of(now: Snapshot, rank: int) -> int:
    return next(p.pid or 0 for p in now.processes if p.role == "worker" and p.rank == rank)


def test_the_rank_whose_card_rests_while_the_others_spin_is_named() -> None:
    now = start_until(1880)
    cards = tuple(CardUse(rank, 100, 100, (pid_of(now, rank),)) for rank in range(7))
    found = judge(now, 1880 + 70, Usage(60, 0.0, 7.0, 0, 0, (*cards, CardUse(7, 0, 1, (pid_of(now, 7),)))), 60, {})
    assert found.verdict == "hung" and found.sign == signs()["rank-away"]
    assert found.who is not None and (found.who.role, found.who.rank) == ("worker", 7)
    assert "GPUs 0, 1, 2, 3, 4, 5, 6 at 100 %" in found.text and "GPU 7 at rest: rank 7 (pid" in found.text


@pytest.mark.parametrize("last", [CardUse(7, 0, 60), CardUse(7, 40, 40)])
def test_a_card_that_works_now_and_then_accuses_nobody(last: CardUse) -> None:
    cards = tuple(CardUse(rank, 100, 100) for rank in range(7))
    found = judge(start_until(1880), 1880 + 70, Usage(60, 0.0, 7.0, 0, 0, (*cards, last)), 60, {})
    assert found.sign != signs()["rank-away"] and found.who is None


def test_a_stopped_process_is_named_before_anything_else() -> None:
    now = start_until(1880)
    held = ProcessSample(9000, pid_of(now, 3), "VLLM::Worker_TP3", "T", 9.0, None, 0)
    found = judge(now, 1880 + 70, Usage(60, 0.0, 7.0, 0, 100, held=(held,)), 60, {})
    assert found.sign == signs()["held"] and found.who is not None and found.who.rank == 3
    assert "rank 3 (pid" in found.text


def test_a_service_that_does_not_answer_is_judged_by_the_machine_alone() -> None:
    now = start_until(1880)
    away = CardUse(0, 100, 100, (pid_of(now, 0),)), CardUse(1, 0, 0, (pid_of(now, 1),))
    found = standstill(now, Usage(8, 0.0, 1.0, 0, 0, away))
    assert found is not None and found.who is not None and found.who.rank == 1
    assert standstill(now, Usage(8, 0.0, 1.0, 0, 100, away[:1])) is None
    assert standstill(now, Usage(8, 0.0, 1.0, 0, 0, (CardUse(0, 100, 100), CardUse(1, 0, 0)))) is None  # whose?
    assert standstill(now, None) is None


def test_without_gpu_figures_the_stage_still_speaks() -> None:
    assert judge(start_until(45), 400, None, 900, {}).sign == signs()["nccl-wait"]


def test_one_rank_behind_is_named() -> None:
    now = start_until(57)
    late = [p for p in now.processes if p.role == "worker" and p.rank == 5]
    late[0].stage = "nccl"
    found = judge(now, 57 + 900, IDLE, 900, {})
    assert found.verdict == "hung" and found.sign == signs()["rank-behind"] and "rank 5" in found.text


def test_the_broadcast_line_is_no_progress_except_while_compiling() -> None:
    line = "(EngineCore_DP0 pid=120) INFO 03-02 08:40:00 [shm_broadcast.py:501] "
    line += "No available shared memory broadcast block found in 60 seconds."
    profile = start_until(1880, (line, line))
    assert profile.stage == "profile" and profile.broadcasts == 2
    assert judge(profile, 1880 + 120, None, 900, {}).sign == signs()["broadcast"]
    compiling = start_until(1905, (line, line))
    assert compiling.stage == "compile"
    assert judge(compiling, 1905 + 120, None, 900, {}).verdict == "ok"
    assert judge(compiling, 1905 + 1801, None, 900, {}).verdict == "hung"


def test_everything_asleep() -> None:
    assert judge(start_until(1880), 1880 + 100, IDLE, 900, {}).sign == signs()["asleep"]


@pytest.mark.parametrize(
    ("stage", "timeouts", "seconds"),
    [("load", {}, 900), ("nccl", {}, 300), ("compile", {}, 1800), ("nccl", {"nccl": 1200}, 1200)],
)
def test_limits(stage: str, timeouts: dict[str, int], seconds: float) -> None:
    assert limit(patterns().stages[stage], 900, timeouts) == seconds


def test_a_short_general_limit_shortens_the_stages() -> None:
    assert limit(patterns().stages["nccl"], 180, {}) == 180


def test_rates_over_a_window() -> None:
    def sample(at: float, read: int, mib: int, busy: int) -> Sample:
        return Sample(at, (Gpu(0, mib, 97887, busy), Gpu(1, mib, 97887, 100)), None, read, False, at)

    found = usage([sample(0, 0, 0, 0), sample(10, 500, 10, 50), sample(20, 2500, 40, 90)], 10)
    assert found == Usage(10, 200.0, 1.0, 60, 50, (CardUse(0, 50, 90), CardUse(1, 100, 100)))
    assert usage([sample(0, 0, 0, 0)], 10) is None


def process(pid: int, state: str) -> ProcessSample:
    return ProcessSample(pid, pid - 1000, "VLLM::Worker", state, 0.0, None, 0)


def seen(at: float, states: dict[int, str], *gpus: Gpu) -> Sample:
    return Sample(at, gpus, tuple(process(pid, state) for pid, state in states.items()), None, False, None)


def test_only_the_cards_of_the_engine_are_looked_at() -> None:
    cards = Gpu(0, 9, 99, 100, (1007,)), Gpu(1, 9, 99, 2, (5000,)), Gpu(2, 9, 99, 3, (1008, 5001))
    found = usage([seen(at, {1007: "R", 1008: "S"}, *cards) for at in (0, 10)], 10)
    assert found is not None
    assert found.cards == (CardUse(0, 100, 100, (7,)), CardUse(2, 3, 3, (8,))) and found.gpu_busy == 3


def test_cards_of_others_say_nothing_once_the_engine_left_its_own() -> None:
    cards = Gpu(0, 9, 99, 100, (5000,)), Gpu(1, 9, 99, 0, ())
    found = usage([seen(at, {1007: "S"}, *cards) for at in (0, 10)], 10)
    assert found is not None and found.cards == () and found.gpu_busy is None
    nobody = Gpu(0, 9, 99, 100, ()), Gpu(1, 9, 99, 100, ())  # the driver does not see into containers
    found = usage([seen(at, {1007: "S"}, *nobody) for at in (0, 10)], 10)
    assert found is not None and found.gpu_busy == 100


def test_held_is_who_did_not_run_in_any_sample() -> None:
    samples = [seen(0, {1007: "T", 1008: "D", 1009: "T"}), seen(10, {1007: "T", 1008: "D", 1009: "S"})]
    found = usage(samples, 10)
    assert found is not None and [p.inner for p in found.held] == [7, 8]
