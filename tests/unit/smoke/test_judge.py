"""Counters and the smoke verdict."""

from dataclasses import replace
from pathlib import Path

import pytest

from kit.config.schema import Gates
from kit.smoke.counters import Counters, parse
from kit.smoke.judge import Answer, Expected, SmokeResult, judge

COUNTED = Counters(
    drafts=17,
    draft_tokens=85,
    accepted_tokens=85,
    per_position=dict.fromkeys(range(5), 17),
    generated_tokens=100,
    requests=1,
    speculating=True,
)
EXPECTED = Expected(17, 85, 85, (17,) * 5)
TEXTS = ["t12 t19"]
ANSWER = Answer("t5", " t12 t19", 100, 0.05, 1.04)


def run(
    counted: Counters = COUNTED,
    gates: Gates | None = None,
    expected: Expected | None = None,
    answer: Answer = ANSWER,
    k: int = 5,
    other: int = 0,
) -> SmokeResult:
    return judge([answer], counted, k, gates or Gates(), expected, TEXTS if expected else None, other)


def failed(result: SmokeResult) -> dict[str, str]:
    assert result.verdict == ("fail" if any(g.status == "fail" for g in result.gates) else "pass")
    return {gate.name: gate.found for gate in result.gates if gate.status == "fail"}


def test_the_exact_prediction_passes_and_the_contract_is_kept() -> None:
    result = run(expected=EXPECTED)
    assert failed(result) == {}
    told = result.to_json()
    assert told["schema"] == "kit.smoke/1"
    assert (told["num_drafts"], told["num_draft_tokens"], told["num_accepted_tokens"]) == (17, 85, 85)
    assert (told["acceptance_rate"], told["mean_acceptance_length"]) == (1.0, 6.0)
    assert told["per_position"] == [1.0] * 5
    assert told["expected"]["per_position"] == [17] * 5
    assert told["ttft_s"] == 0.05
    assert told["tokens_per_s"] == 100.0


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"drafts": 18}, {"tokens per draft", "exact drafts"}),
        ({"draft_tokens": 80}, {"tokens per draft", "exact draft tokens"}),
        ({"accepted_tokens": 84}, {"exact accepted tokens"}),
        ({"per_position": {0: 17, 1: 17, 2: 17, 3: 17, 4: 16}}, {"exact per position"}),
    ],
)
def test_one_wrong_counter_fails_by_its_name(change: dict[str, object], names: set[str]) -> None:
    assert set(failed(run(replace(COUNTED, **change), expected=EXPECTED))) == names


def test_wrong_text_fails() -> None:
    assert failed(run(expected=EXPECTED, answer=replace(ANSWER, text=" t12 t20"))) == {"text": "wrong after t5"}


def test_a_drafter_that_is_never_right_fails_without_any_gate() -> None:
    never = replace(COUNTED, drafts=99, draft_tokens=495, accepted_tokens=0, per_position=dict.fromkeys(range(5), 0))
    assert failed(run(never)) == {"any draft token accepted": "0: the drafter is never right"}


def test_no_drafts_at_all() -> None:
    assert "drafted nothing" in failed(run(replace(COUNTED, drafts=0, draft_tokens=0)))["drafts"]
    assert "no speculative counters" in failed(run(Counters()))["drafts"]
    assert failed(run(Counters(), k=0)) == {}


def test_gates_are_inclusive() -> None:
    exactly = Gates(acceptance_rate=1.0, mean_acceptance_length=6.0, per_position=[1.0], tokens_per_s=100, ttft_s=0.05)
    assert failed(run(gates=exactly)) == {}
    above = Gates(mean_acceptance_length=6.1, tokens_per_s=101, ttft_s=0.04)
    assert set(failed(run(gates=above))) == {"mean acceptance length", "tokens a second", "time to first token"}
    half = replace(COUNTED, accepted_tokens=40, per_position={0: 10, 1: 10, 2: 10, 3: 10, 4: 0})
    low = Gates(acceptance_rate=0.5, per_position=[0.5, 0.6])
    assert set(failed(run(half, gates=low))) == {"acceptance rate", "acceptance at position 2"}


def test_failed_and_empty_answers() -> None:
    assert "status 500" in failed(run(answer=replace(ANSWER, error="POST: status 500")))["requests"]
    assert "empty answer" in failed(run(answer=replace(ANSWER, text=" ")))["requests"]


def test_other_traffic_is_said_and_does_not_fail_alone() -> None:
    result = run(other=2)
    assert [g.status for g in result.gates if g.name == "other traffic"] == ["warn"]
    assert result.verdict == "pass"
    moved = run(replace(COUNTED, accepted_tokens=99), expected=EXPECTED, other=2)
    assert "other traffic moved the counters" in failed(moved)["exact accepted tokens"]


def test_metrics_text_is_read_and_summed_over_engines() -> None:
    lines = []
    for engine in "01":
        label = f'{{engine="{engine}",model_name="m"}}'
        lines += [
            f"vllm:spec_decode_num_drafts_total{label} 10.0",
            f"vllm:spec_decode_num_draft_tokens_total{label} 50.0",
        ]
        lines += [f"vllm:spec_decode_num_accepted_tokens_total{label} 20.0", f"vllm:num_requests_running{label} 1.0"]
        for position, count in enumerate((10, 6, 4, 0, 0)):
            inner = f'{{engine="{engine}",model_name="m",position="{position}"}}'
            lines.append(f"vllm:spec_decode_num_accepted_tokens_per_pos_total{inner} {count}.0")
    counters = parse("\n".join(lines) + "\n")
    assert (counters.drafts, counters.draft_tokens, counters.accepted_tokens, counters.running) == (20, 100, 40, 2)
    assert counters.per_position == {0: 20, 1: 12, 2: 8, 3: 0, 4: 0}
    assert counters.speculating
    assert counters.since(counters).drafts == 0
    assert not parse("# nothing\n").speculating


def test_text_that_is_no_metrics_is_refused() -> None:
    with pytest.raises(ValueError):
        parse("<html>\n{not metrics\n")


def test_the_metrics_of_a_real_server_are_read() -> None:
    """Printed by vLLM 0.32.0 after three requests of 100 tokens to the reference pair."""
    text = (Path(__file__).parents[2] / "data" / "metrics" / "vllm-0.32.0.txt").read_text()
    assert parse(text) == Counters(51, 255, 255, dict.fromkeys(range(5), 51), 300, 3, 0, True)
