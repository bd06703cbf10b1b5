"""The figures that the diagnoser promises, on the labelled logs."""

from pathlib import Path

import pytest

from benchmarks.labelled_logs import DATA, calibration, judge, logs, without
from kit.logs.confidence import MEASURED
from kit.logs.rules import load

RULES = load()
LABELLED = logs(sorted(f.parent for f in DATA.glob("*/truth.jsonl")))
FAILED = [log for log in LABELLED if not log.healthy]


def share(found: list[bool]) -> float:
    return sum(found) / len(found)


def test_root_process_and_category_are_named() -> None:
    answers = [judge(log, RULES) for log in FAILED]
    assert share([a.root for a in answers]) >= 0.98
    assert share([a.process for a in answers]) >= 0.97
    assert share([a.category for a in answers]) >= 0.95


@pytest.mark.parametrize("log", [log for log in LABELLED if log.healthy], ids=lambda log: log.path.stem)
def test_a_healthy_log_raises_no_alarm(log) -> None:  # type: ignore[no-untyped-def]
    answer = judge(log, RULES)
    assert answer.diagnosis.verdict == "healthy"
    assert answer.diagnosis.root_cause is None


def test_the_root_is_found_without_the_rules_of_its_category() -> None:
    known = [log for log in FAILED if log.truth.get("category")]
    assert share([judge(log, without(RULES, log)).root for log in known]) >= 0.90


def test_degraded_is_told_from_failed() -> None:
    for log in FAILED:
        assert judge(log, RULES).diagnosis.verdict == log.truth["verdict"], log.path.name


def test_confidence_is_what_these_logs_measure() -> None:
    assert {k: round(share, 2) for k, share in calibration(LABELLED, RULES).items()} == pytest.approx(MEASURED, abs=0.1)


def test_data_is_complete() -> None:
    assert len(LABELLED) > 100
    assert all(Path(log.path).exists() for log in LABELLED)
