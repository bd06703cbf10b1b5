"""What status concludes from metrics, the end of the log, and readings over hours."""

from dataclasses import replace
from pathlib import Path

import pytest

from kit.serve.gauges import Gauges, gauges
from kit.serve.readings import Reading, falling, load, note
from kit.serve.show import rows
from kit.serve.status import Log, Status, read_log, stopped
from kit.smoke.counters import Counters
from kit.watch.processes import ProcessSample
from kit.watch.service import History, line, sparkline, told

DATA = Path(__file__).parents[2] / "data"
SPEC = (
    "(APIServer pid=1) INFO 03-02 08:00:01 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: {length}, "
    "Accepted throughput: 1.0 tokens/s, Drafted throughput: 1.0 tokens/s, Accepted: {accepted} tokens, Drafted: 1000 "
    "tokens, Per-position acceptance rate: 0.6, 0.4\n"
)


def test_gauges_of_a_real_server() -> None:
    found = gauges((DATA / "metrics" / "vllm-0.32.0.txt").read_text())
    assert (found.kv_use, found.running, found.waiting) == (0.0, 0, 0)
    assert (found.first_tokens, found.first_token_s) == (3.0, pytest.approx(0.2248, abs=1e-3))


def test_gauges_of_several_engines_and_of_releases_that_print_old_and_new_names() -> None:
    found = gauges(
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.75\n'
        'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 3.0\n'
        "vllm:inter_token_latency_seconds_sum 4.0\nvllm:time_per_output_token_seconds_sum 4.0\n"
    )
    assert (found.kv_use, found.running, found.waiting, found.between_s) == (0.75, 5, None, 4.0)
    assert gauges("nonsense") == Gauges()


def test_the_end_of_the_log_tells_errors_and_the_newest_acceptance() -> None:
    text = SPEC.format(length=2.5, accepted=600) + "(EngineCore pid=2) ERROR 03-02 08:00:02 [core.py:1] boom\n"
    text += "(APIServer pid=1) WARNING 03-02 08:00:02 [x.py:1] ERROR is only a word here\n" + SPEC.format(
        length=2.4, accepted=580
    )
    data = text.encode()
    found = read_log(data[i : i + 50] for i in range(0, len(data), 50))
    assert found.errors == 1 and found.last_error is not None and found.last_error.endswith("boom")
    assert found.acceptance is not None and found.acceptance.length == 2.4
    assert found.judged is None


def test_a_log_in_which_acceptance_falls_is_noticed() -> None:
    lengths = [3.0, 2.9, 2.7, 2.4, 2.0, 1.7, 1.5, 1.4]
    text = "".join(SPEC.format(length=n, accepted=int((n - 1) * 200)) for n in lengths)
    judged = read_log([text.encode()]).judged
    assert judged is not None and "fell from" in judged


def readings(lengths: list[float], started: str = "a") -> list[Reading]:
    drafts = drafted = accepted = 0
    found = [Reading(0.0, started, 0, 0, 0)]
    for number, length in enumerate(lengths, 1):
        drafts, drafted = drafts + 200, drafted + 1000
        accepted += int((length - 1) * 200)
        found.append(Reading(number * 600.0, started, drafts, drafted, accepted))
    return found


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([3.0, 3.1, 2.9, 3.0, 3.0, 3.1], None),
        ([3.0, 2.8, 2.5, 2.2, 1.8, 1.5], "fell from"),
        ([1.1, 1.1, 1.1, 1.1], "were accepted"),
        ([3.0], None),
        ([], None),
    ],
)
def test_a_falling_acceptance_over_hours(lengths: list[float], said: str | None) -> None:
    found = falling(readings(lengths), "a")
    assert (found is None) if said is None else (found is not None and said in found)


def test_readings_of_an_earlier_container_do_not_count() -> None:
    assert falling([*readings([3.0, 2.8, 2.5, 2.2, 1.8, 1.5], "a"), Reading(9e9, "b", 1, 1, 1)], "b") is None


def test_readings_are_kept_a_minute_apart_and_survive_damage(tmp_path: Path) -> None:
    path = tmp_path / "readings.jsonl"
    counted = Counters(drafts=1, draft_tokens=5, accepted_tokens=3)
    assert len(note(path, counted, "a", 100.0)) == 1
    assert len(note(path, counted, "a", 130.0)) == 1
    assert len(note(path, counted, "a", 170.0)) == 2
    assert len(note(path, counted, "b", 171.0)) == 3
    path.write_text(path.read_text() + "{broken\n[]\n")
    assert [r.started for r in load(path)] == ["a", "a", "b"]
    assert load(tmp_path / "none") == []


def look(tokens: int, drafts: int, accepted: int, first: tuple[float, float]) -> Status:
    counted = Counters(drafts, drafts * 5, accepted, {}, tokens, tokens // 100, 1, True)
    return Status("ready", None, counted=counted, gauges=Gauges(0.5, 1, 0, *first, 2.0, 100.0))


def test_rates_between_two_looks() -> None:
    history = History()
    assert history.look(10.0, look(0, 0, 0, (1.0, 10))) is None
    rates = history.look(12.0, look(200, 50, 75, (1.6, 12)))
    assert rates is not None
    assert (rates.tokens, rates.requests, rates.acceptance, rates.length) == (100.0, 1.0, 0.3, 2.5)
    assert rates.first_token_s == pytest.approx(0.3) and rates.between_s is None
    assert told(rates)[1] == ("accepting", "30.0% of draft tokens, mean length 2.50")
    assert "KV cache 50.0%" in line(look(0, 0, 0, (0, 0)), rates)


def test_a_restart_between_two_looks_gives_no_rates() -> None:
    history = History()
    history.look(0.0, look(200, 50, 75, (1.6, 12)))
    assert history.look(2.0, look(10, 1, 1, (0.1, 1))) is None


def test_sparkline() -> None:
    assert sparkline([0.0, 1.0, None, 2.0], 2.0) == "▁▅ █"


def test_rows_leave_out_what_is_not_known_and_say_what_is_wrong() -> None:
    assert list(rows(Status("absent", "there is no container"))) == [("state", "absent: there is no container")]
    found = dict(rows(Status("ready", None, image="i", as_locked=False, log=Log(3, "boom"))))
    assert found["image"] == "i, NOT as locked" and found["errors"].startswith("3 lines")


def test_a_stopped_process_is_named() -> None:
    worker = ProcessSample(20003, 55, "VLLM::Worker_TP", "T", 1.0, None, 0)
    assert stopped([replace(worker, state="S"), replace(worker, state="D")]) is None
    assert stopped(None) is None
    said = stopped([replace(worker, state="R"), worker])
    assert said is not None and "VLLM::Worker_TP (pid 55, here 20003)" in said and "kill -CONT 20003" in said
