"""What a check is, and what it answers."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from kit.config import Deployment

Status = Literal["pass", "warn", "fail", "skip"]
FAMILIES = {
    "config": "what kit.yaml asks for, against this machine",
    "host": "the machine: processor, memory, disks, limits, clock",
    "docker": "the container engine, and how it hands over GPUs",
    "gpu": "each card, and the driver",
    "link": "the ways between cards",
    "image": "the image that will run",
    "model": "the target's files, and whether they fit",
    "drafter": "the drafter's files, against the target and this vLLM",
}


@dataclass(frozen=True)
class Answer:
    """One check's answer. `found` and `want` are for people; `fix` is what to do, best a command.

    A check makes one with `good`, `bad`, `unknown` or `skip` below.
    """

    status: Status
    found: str
    want: str = ""
    fix: str = ""


class Check:
    """A check of one thing. A subclass's docstring says what and why it matters; docs/checks.md is made from it.

    `id` is `family.name`; `requires` names checks that must not have failed for this one to mean anything;
    `severity` is what `bad` answers: fail (a load will fail) or warn (it will work, but worse or not for long).
    `check` is declared by each subclass with the facts it needs as parameters, by the names of `kit.checks.facts`.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    severity: ClassVar[Literal["fail", "warn"]] = "fail"
    requires: ClassVar[tuple[str, ...]] = ()
    fix: ClassVar[str] = ""

    @classmethod
    def family(cls) -> str:
        """The part of the id before the dot."""
        return cls.id.partition(".")[0]

    @classmethod
    def facts(cls) -> list[str]:
        """The names of the facts that `check` takes."""
        return [name for name in inspect.signature(cls.check).parameters if name != "self"]

    @classmethod
    def text(cls) -> str:
        """What is checked, and why, in one paragraph."""
        return " ".join((cls.__doc__ or "").split())

    def spared(self, deployment: Deployment) -> str | None:
        """Why this check has nothing to say about a deployment; None when it has."""
        return None

    check: ClassVar[Any]

    def good(self, found: str) -> Answer:
        """All is well: `found` says what was seen."""
        return Answer("pass", found)

    def bad(self, found: str, want: str = "", fix: str | None = None, level: Status | None = None) -> Answer:
        """It is not well; `fix` and `level` default to the class's."""
        return Answer(level or self.severity, found, want, self.fix if fix is None else fix)

    def unknown(self, found: str, fix: str | None = None) -> Answer:
        """It could not be seen, which is no pass."""
        return Answer("warn", f"unknown: {found}", "", self.fix if fix is None else fix)

    def skip(self, why: str) -> Answer:
        """It does not apply here."""
        return Answer("skip", why)


class GpuCheck(Check):
    """A check that only a deployment on GPUs needs."""

    def spared(self, deployment: Deployment) -> str | None:
        return None if deployment.kit.engine.device == "cuda" else "this deployment uses no GPU"


def worst(answers: list[Answer]) -> Answer:
    """Several answers of one check as one: the gravest leads, the texts are joined."""
    order: list[Status] = ["fail", "warn", "pass", "skip"]
    ranked = sorted(answers, key=lambda answer: order.index(answer.status))
    same = [answer for answer in ranked if answer.status == ranked[0].status]
    fixes = dict.fromkeys(answer.fix for answer in same if answer.fix)
    wants = dict.fromkeys(answer.want for answer in same if answer.want)
    return replace(
        ranked[0],
        found="; ".join(answer.found for answer in same),
        want="; ".join(wants),
        fix="; ".join(fixes),
    )
