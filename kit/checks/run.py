"""Runs checks in order of what they require, and sums up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kit.checks.base import Answer, Check, Status
from kit.checks.facts import Facts
from kit.checks.registry import checks, in_order
from kit.errors import KitError

SCHEMA = "kit.doctor/1"


@dataclass(frozen=True)
class Result:
    """One check's answer beside what it is."""

    check: type[Check]
    answer: Answer

    def to_json(self) -> dict[str, str]:
        """An item of the contract's `checks`."""
        kind, answer = self.check, self.answer
        return {
            "id": kind.id,
            "family": kind.family(),
            "title": kind.title,
            "status": answer.status,
            "found": answer.found,
            "want": answer.want,
            "fix": answer.fix,
        }


def run(wanted: Iterable[str], facts: Facts) -> list[Result]:
    """The results of the checks of these ids; what they require is run too, but not reported unless wanted."""
    asked = list(wanted)
    answers: dict[str, Answer] = {}
    blamed: dict[str, str] = {}
    for name in in_order(asked):
        kind = checks()[name]
        answers[name] = _one(kind(), facts, answers, blamed)
    return [Result(checks()[name], answers[name]) for name in asked]


def verdict(results: Sequence[Result]) -> Status:
    """The gravest status; a skipped check weighs nothing."""
    statuses = {result.answer.status for result in results}
    return "fail" if "fail" in statuses else "warn" if "warn" in statuses else "pass"


def _one(check: Check, facts: Facts, answers: dict[str, Answer], blamed: dict[str, str]) -> Answer:
    """One answer. A fact that cannot be gathered fails the first check that needs it; later ones point there."""
    if (why := check.spared(facts.deployment)) is not None:
        return check.skip(why)
    for required in check.requires:
        if answers[required].status in ("fail", "skip"):
            return check.skip(f"needs {required}")
    values: dict[str, Any] = {}
    for name in check.facts():
        if name in blamed:
            return check.skip(f"needs what {blamed[name]} could not see")
        try:
            values[name] = getattr(facts, name)
        except KitError as error:
            blamed[name] = check.id
            evidence = f" ({'; '.join(error.evidence[:3])})" if error.evidence else ""
            return Answer("fail", f"{error.message}{evidence}", "", error.hint or "")
        except OSError as error:
            blamed[name] = check.id
            return check.unknown(str(error), check.fix)
        except Exception as error:
            blamed[name] = check.id
            return _own_fault(check, error)
    try:
        answer: Answer = check.check(**values)
    except Exception as error:
        return _own_fault(check, error)
    return answer


def _own_fault(check: Check, error: Exception) -> Answer:
    """A fault in the kit's own code, which must not hide what other checks see."""
    return check.unknown(f"a fault of the kit itself: {type(error).__name__}: {error}", "report this line")
