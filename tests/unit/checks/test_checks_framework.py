"""How checks are chosen, ordered and run."""

from __future__ import annotations

import pytest

from kit.checks import facts as facts_module
from kit.checks import registry
from kit.checks.base import FAMILIES, Answer, Check, worst
from kit.checks.run import run, verdict
from kit.errors import MissingError, UsageError

ALL = registry.checks()


class Facts:
    deployment = None

    def __init__(self):
        self.gathered = 0

    @property
    def number(self):
        self.gathered += 1
        return 7

    @property
    def broken(self):
        raise MissingError("no such thing", hint="make one", evidence=["seen"])


class First(Check):
    """One."""

    id, title = "host.first", "first"

    def check(self, number: int) -> Answer:
        return self.good(str(number)) if number == 7 else self.bad("no")


class Failing(Check):
    """Two."""

    id, title, fix, severity = "host.failing", "failing", "mend it", "warn"

    def check(self) -> Answer:
        return self.bad("broken", "whole", level="fail")


class After(Check):
    """Three."""

    id, title, requires = "host.after", "after", ("host.failing",)

    def check(self, number: int) -> Answer:
        return self.good("never reached")


class AfterAfter(Check):
    """Four."""

    id, title, requires = "host.after-after", "after", ("host.after",)

    def check(self) -> Answer:
        return self.good("never reached")


class NoFact(Check):
    """Five."""

    id, title = "gpu.no-fact", "no fact"

    def check(self, broken: object) -> Answer:
        return self.good("never reached")


class NoFactEither(Check):
    """Six."""

    id, title = "gpu.no-fact-either", "no fact"

    def check(self, broken: object) -> Answer:
        return self.good("never reached")


class Stumbling(Check):
    """Seven."""

    id, title = "gpu.stumbling", "stumbling"

    def check(self) -> Answer:
        raise ZeroDivisionError("oops")


@pytest.fixture
def few(monkeypatch):
    kinds = {kind.id: kind for kind in (AfterAfter, After, First, Failing, NoFact, NoFactEither, Stumbling)}
    for module in ("kit.checks.registry", "kit.checks.run"):
        monkeypatch.setattr(f"{module}.checks", lambda: kinds)
    return kinds


def statuses(results):
    return {result.check.id: result.answer.status for result in results}


def test_a_failed_requirement_skips_all_that_hangs_on_it(few):
    results = run(["host.after-after", "host.after", "host.first"], Facts())
    assert statuses(results) == {"host.after-after": "skip", "host.after": "skip", "host.first": "pass"}
    assert results[0].answer.found == "needs host.after"


def test_results_come_in_the_order_asked_for_and_requirements_are_not_reported(few):
    assert [r.check.id for r in run(["host.after", "host.first"], Facts())] == ["host.after", "host.first"]
    assert registry.in_order(["host.after-after"]) == ["host.failing", "host.after", "host.after-after"]


def test_a_fact_that_cannot_be_gathered_fails_once_and_is_pointed_at_after(few):
    first, second = run(["gpu.no-fact", "gpu.no-fact-either"], Facts())
    assert (first.answer.status, first.answer.found, first.answer.fix) == ("fail", "no such thing (seen)", "make one")
    assert (second.answer.status, second.answer.found) == ("skip", "needs what gpu.no-fact could not see")


def test_a_fault_of_a_check_is_unknown_and_hides_nothing(few):
    results = run(["gpu.stumbling", "host.first"], Facts())
    assert statuses(results) == {"gpu.stumbling": "warn", "host.first": "pass"}
    assert "ZeroDivisionError: oops" in results[0].answer.found


def test_level_over_severity_and_the_classes_fix(few):
    (result,) = run(["host.failing"], Facts())
    assert result.to_json() == {
        "id": "host.failing", "family": "host", "title": "failing", "status": "fail", "found": "broken",
        "want": "whole", "fix": "mend it",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "summed"),
    [([], "pass"), (["pass", "skip"], "pass"), (["skip", "warn"], "warn"), (["warn", "fail", "pass"], "fail")],
)
def test_verdict_is_the_gravest_and_a_skip_weighs_nothing(given, summed):
    from kit.checks.run import Result

    assert verdict([Result(First, Answer(status, "")) for status in given]) == summed


def test_several_answers_as_one():
    joined = worst([Answer("warn", "a", "x", "f"), Answer("fail", "b", "y", "g"), Answer("fail", "c", "y", "g")])
    assert joined == Answer("fail", "b; c", "y", "g")


def test_selecting_and_ignoring_ids_and_families():
    assert registry.chosen(["gpu.present"]) == ["gpu.present"]
    assert registry.chosen(["gpu,link"], ["link.acs", "gpu.xid"]) == [
        name for name in ALL if name.split(".")[0] in ("gpu", "link") and name not in ("link.acs", "gpu.xid")
    ]
    assert registry.chosen() == list(ALL)


@pytest.mark.parametrize(("word", "near"), [("gpus", "gpu"), ("link.asc", "link.acs")])
def test_an_unknown_word_is_refused_with_the_nearest(word, near):
    with pytest.raises(UsageError) as refused:
        registry.chosen([word])
    assert refused.value.hint == f"did you mean {near}?"


@pytest.mark.parametrize("kind", ALL.values(), ids=list(ALL))
def test_every_check_is_whole(kind):
    assert kind.family() in FAMILIES
    assert kind.__module__ == f"kit.checks.{kind.family()}"
    assert kind.text().endswith(".") and len(kind.text()) > 40
    assert kind.title and not kind.title.endswith(".")
    assert set(kind.requires) <= set(ALL)
    assert all(isinstance(getattr(facts_module.Facts, n, None), object) for n in kind.facts())
    unknown = [n for n in kind.facts() if n != "deployment" and not hasattr(facts_module.Facts, n)]
    assert unknown == []


def test_requirements_have_no_ring():
    order = registry.in_order(list(ALL))
    assert all(order.index(required) < order.index(name) for name in ALL for required in ALL[name].requires)
