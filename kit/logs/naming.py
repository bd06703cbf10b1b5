"""Gives a first cause its name: the rule that knows it, the line that says most, the process it belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kit.logs import rules as ruling
from kit.logs import signals
from kit.logs.model import UNKNOWN, Failure, Line, Owner, Raised
from kit.logs.rules import Company, Rule
from kit.logs.run import Run
from kit.logs.tracebacks import causal

_INNER = re.compile(
    r"ptxas fatal|nvcc fatal|\bfatal error: |: error: |command not found|cannot find -l|undefined reference"
)
_DETAIL = re.compile(r"^ {2}\S.*")
_RAISED_ON_NEXT = re.compile(r"raised:\s*$")
NCCL_LATE = 50  # lines
_TIMED_OUT = re.compile(r"time(?:d )?out|Timeout", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cause:
    """The first cause of one run, named by a rule where one knows it; `basis` says how it was found."""

    failure: Failure
    owner: Owner
    line: int | None
    exception: str
    stage: str
    rule: Rule | None
    basis: str
    category: str = UNKNOWN
    detail: str = ""


def named(failure: Failure, run: Run, rules: Sequence[Rule], basis: str) -> Cause:
    """The cause with its name: the exception of the chain that a rule knows best, else the first of it."""
    around = company(run, failure.stage, failure.kind, frames_of(failure))
    chosen: tuple[int, int, Raised | None, Rule | None] | None = None
    options: list[tuple[Raised | None, str]] = [(None, failure.exception)]
    if failure.trace is not None and failure.trace.raised:
        options = [(r, r.text) for r in causal(failure.trace) if r.name and not signals.passed_on(r.text)]
        options = options or [(failure.raised, failure.exception)]
    for at, (raised, text) in enumerate(options):
        rule = ruling.best(rules, text, around)
        score = (rule.rank if rule else 3, at)
        if chosen is None or score < chosen[:2]:
            chosen = (*score, raised, rule)
    assert chosen is not None
    _, _, raised, rule = chosen
    line, exception = failure.line, failure.exception
    if raised is not None:
        line, exception = place(raised), raised.text
    owner = who(failure, run)
    cause = Cause(
        failure, owner, line, exception[:1600], failure.stage, rule, basis, rule.category if rule else UNKNOWN
    )
    cause = explained(cause, run, rules)
    cause = waited(cause, run, rules)
    if cause.rule is not None and cause.rule.process and cause.rule.process != cause.owner.role:
        really = cause.owner.role.replace("_", " ")
        really += f" rank {cause.owner.rank}" if cause.owner.rank is not None else ""
        cause = replace(cause, owner=Owner(cause.rule.process), detail=cause.detail or f"it was the {really}")
    return cause


def rule_of(failure: Failure, run: Run, rules: Sequence[Rule]) -> Rule | None:
    """The rule that knows the failure by the text it ends in."""
    return ruling.best(rules, failure.exception, company(run, failure.stage, failure.kind, frames_of(failure)))


def company(run: Run, stage: str, kind: str, frames: str = "") -> Company:
    """What stands around a failure of the run."""
    return Company(frames, run.context(), stage, kind, run.version)


def frames_of(failure: Failure) -> str:
    """The frames of a failure's traceback, one "file function" a line."""
    return "\n".join(f"{file} {function}" for file, function in failure.trace.frames) if failure.trace else ""


def place(raised: Raised) -> int:
    """The line of an exception's message that says most: pydantic and compilers put it below the first."""
    lines = raised.message.split("\n")
    for offset, number in enumerate(raised.more, start=1):
        text = lines[offset] if offset < len(lines) else ""
        if "validation error" in lines[0] and (_DETAIL.match(text)):
            return number
        if offset == 1 and _RAISED_ON_NEXT.search(lines[0]) and text.strip():
            return number
        if _INNER.search(text):
            return number
    return raised.line


def who(failure: Failure, run: Run) -> Owner:
    """Whose failure it is when its line bears no name: the process reported dead next, or the next to fail."""
    if failure.kind == "usage" and run.exit_codes:
        return Owner("container")
    if failure.owner.role != "none":
        return failure.owner
    later = [f for f in run.failures if f.line > failure.line and f.fatal]
    for other in later:
        if other.kind == "death" and other.owner.role != "container":
            return other.owner
    for other in later:
        if other.blames in ("worker", "engine_core"):
            return Owner(other.blames)
        if other.owner.role not in ("none", "container"):
            return other.owner
    return failure.owner if run.roles else Owner("container")  # no process of the server ever spoke


def explained(cause: Cause, run: Run, rules: Sequence[Rule]) -> Cause:
    """Another line, perhaps no error at all, that a rule knows as the reason of this failure."""
    around = company(run, cause.stage, "notice")
    lines = [line for line in (*run.early_notices, *run.notices) if _may_explain(line, cause)]
    for rule in rules:
        if not rule.explains or not any(ruling.holds(p, cause.exception) for p in rule.explains):
            continue
        for line in lines:
            if ruling.applies(rule, line.text, around):
                owner = line.owner if line.owner and line.owner.role == "worker" else cause.owner
                both = f"{line.text[:800].strip()}\n{cause.exception}"
                return replace(
                    cause, line=line.number, exception=both[:1600], rule=rule, owner=owner, category=rule.category
                )
    return cause


def _may_explain(line: Line, cause: Cause) -> bool:
    """An earlier line; or one of NCCL's own in the same process, soon after: its output is buffered."""
    at, pid = cause.line or 0, cause.owner.pid
    late = line.where == "nccl" and pid is not None and line.owner is not None and line.owner.pid == pid
    return line.number < at or (late and line.number < at + NCCL_LATE)


def waited(cause: Cause, run: Run, rules: Sequence[Rule]) -> Cause:
    """A time-out after notices of waiting: the first notice is where the hang began, in a worker."""
    hang = run.hang_first
    if (
        hang is None
        or hang.number > (cause.line or 0)
        or not re.search(r"time(?:d )?out|Timeout", cause.exception, re.I)
    ):
        return cause
    rule = hang_rule(run, rules, cause.stage) or cause.rule
    return replace(
        cause,
        line=hang.number,
        exception=f"{hang.text[:200].strip()} ... {head(cause.exception)}",
        owner=Owner("worker"),
        rule=rule,
        category=rule.category if rule else UNKNOWN,
        basis="hang",
    )


def hang_rule(run: Run, rules: Sequence[Rule], stage: str) -> Rule | None:
    """The rule for a hang, by what the workers last said before it."""
    doing = f"after: {run.before_hang.text[:400]}" if run.before_hang else ""
    return ruling.best(rules, doing, company(run, stage, "hang"))


def head(text: str) -> str:
    """The first line of a text, at most 300 characters."""
    return text.split("\n", 1)[0][:300]
