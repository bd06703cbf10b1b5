"""Finds the first cause among a run's failures: the earliest one that nothing else explains.

The graph is small and known: the API server waits for engine cores, an engine core for its workers,
and whoever runs them for the API server. A failure that only passes on news points down that chain;
where it points at a process that said nothing, that process died without a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kit.logs import rules as ruling
from kit.logs import signals
from kit.logs.model import UNKNOWN, Failure, Line, Link, Owner
from kit.logs.naming import Cause, company, explained, hang_rule, head, named, rule_of
from kit.logs.rules import Rule
from kit.logs.run import Run

_EXIT_CODE = re.compile(r": -\d+")
_QUOTED = re.compile(r"Worker failed with error '(?P<error>.*?)', please check", re.DOTALL)
# a server that has come up may wait once for a slow step; it does not so often in a row
_HANG_NOTICES = 2
_DEPTH = {"worker": 3, "engine_core": 2, "api_server": 1, "container": 0, "none": 0}


def find(run: Run, rules: Sequence[Rule], *, complete: bool = True) -> Cause | None:
    """The first cause of the run's failure or degradation, or None when the run is healthy.

    `complete`: the log ends because the server's output ended (a file), not because it is still growing.
    """
    cause = _failed(run, rules)
    if cause is not None:
        return cause
    cause = _serverwide(run, rules) or _hung(run, rules) or _ended(run, rules, complete) or _degraded(run, rules)
    return cause


def chain(run: Run, cause: Cause) -> list[Link]:
    """From the first cause to the last symptom: one link per process and message, in order."""
    links = [Link(cause.owner.role, cause.line or 0, head(cause.exception))]
    seen = {(cause.owner.role, head(cause.exception))}
    for failure in sorted(run.failures, key=lambda f: f.line):
        if not failure.fatal or failure.line < (cause.line or 0) or failure.kind == "cut" or failure is cause.failure:
            continue
        key = (failure.owner.role, head(failure.exception))
        if key not in seen and failure.exception:
            seen.add(key)
            links.append(Link(failure.owner.role, failure.line, head(failure.exception)))
    return links[:12]


# -- failures -------------------------------------------------------------------------------------------------------


def _failed(run: Run, rules: Sequence[Rule]) -> Cause | None:
    failures = sorted(run.failures, key=lambda f: f.line)
    fatal = [f for f in failures if f.fatal and not _survived(f, run, failures)]
    if not fatal:
        return None
    own = [f for f in fatal if f.blames is None]
    passed = [f for f in fatal if f.blames is not None]
    if own:
        root = own[0]
        weak = _weak_before(root, failures, run, rules)
        if root.kind == "death" and weak:
            root = weak
        root = _deeper(root, failures) or root
        return named(_first_told(root, failures), run, rules, "first")
    if not any(f.blames in ("engine_core", "worker") for f in passed):
        return None
    deepest = max(passed, key=lambda f: (_DEPTH[f.blames or "none"], -f.line))
    weak = _weak_before(deepest, failures, run, rules)
    if weak is not None:
        return named(weak, run, rules, "weak")
    for failure in passed:
        if match := _QUOTED.search(failure.exception):
            told = replace(failure, exception=match["error"].strip(), owner=Owner("worker"), raised=None, trace=None)
            return named(told, run, rules, "quoted")
    return _silent(deepest, run, rules)


def _deeper(root: Failure, failures: list[Failure]) -> Failure | None:
    """An earlier exception in a process that this one waits for, though its words did not say that it was the end."""
    for failure in failures:
        if failure.line >= root.line:
            return None
        told = failure.kind == "exception" and failure.level in ("ERROR", "CRITICAL") and not failure.blames
        if told and not failure.fatal and _DEPTH[failure.owner.role] > max(1, _DEPTH[root.owner.role]):
            return failure
    return None


def _first_told(root: Failure, failures: list[Failure]) -> Failure:
    """The first report of the same exception: some versions log it before the traceback that ends the process."""
    same = [
        f
        for f in failures
        if f.exception == root.exception and f.level in ("ERROR", "CRITICAL") and f.kind == root.kind
    ]
    return next((f for f in same if f.line < root.line and f.owner.role in (root.owner.role, "none")), root)


def _survived(failure: Failure, run: Run, failures: list[Failure]) -> bool:
    """Whether the server went on all the same: it came up, or served, after this and nothing passed it on."""
    if failure.line < run.banner_line and failure.kind != "usage":
        return True  # of something else, before the server began
    if run.told is not None and run.ready is not None and failure.line > run.told:
        return not any(f.fatal and f.line < run.told for f in failures)
    if failure.kind in ("death", "cut") or signals.fatal_intro(failure.intro) or failure.blames:
        after = run.ready is not None and run.ready > failure.line and run.stopped is None
        return after and not any(f.fatal and f.blames and f.line > (run.ready or 0) for f in failures)
    went_on = max(run.ready or 0, run.served or 0)
    if run.stopping is not None and failure.line > run.stopping:
        # an API server that fails stops its engine first and prints its exception last
        its_own = failure.kind == "exception" and failure.owner.role == "api_server"
        return not its_own and not any(f.fatal and (f.blames or f.kind == "death") for f in failures)
    return went_on > failure.line and not any(f.fatal and f.blames for f in failures if f.line > failure.line)


def _weak_before(root: Failure, failures: list[Failure], run: Run, rules: Sequence[Rule]) -> Failure | None:
    """A failure a server might survive, in the process that is blamed, before the news of it."""
    role = root.owner.role if root.kind == "death" else root.blames
    for failure in failures:
        if failure.line > root.line or failure.fatal or failure.kind == "request" or failure.blames:
            continue
        if failure.level in ("WARNING", "INFO", "DEBUG"):
            continue
        if failure.owner.role == role or (failure.owner.role == "none" and rule_of(failure, run, rules)):
            return failure
    return None


def _silent(news: Failure, run: Run, rules: Sequence[Rule]) -> Cause:
    role = news.blames or "engine_core"
    stage = run.stages.get(role) or news.stage
    last = run.roles.get(role)
    silent = Failure("silent", Owner(role, None, last.owner.pid if last and last.owner else None), news.line,
                     news.exception, stage, news.trace, news.raised)  # fmt: skip
    doing = last.text if last else ""
    by_code = [r for r in rules if "silent" in r.kind and any(map(_EXIT_CODE.search, r.match))]
    around = company(run, stage, "silent")
    rule = ruling.best(by_code, news.exception, around) or ruling.best(rules, doing, around)
    cause = Cause(silent, silent.owner, news.line, news.exception, stage, rule, "silent",
                  rule.category if rule else UNKNOWN, f"its last words: {doing[:160]}" if doing else "")  # fmt: skip
    return explained(cause, run, rules)


# -- no failure was printed -----------------------------------------------------------------------------------------


def _serverwide(run: Run, rules: Sequence[Rule]) -> Cause | None:
    """A failure of the start that the server survives, and that makes every request fail, where a rule says so."""
    for failure in sorted(run.failures, key=lambda f: f.line):
        if run.ready is not None and failure.line > run.ready:
            break  # a request's own
        rule = rule_of(failure, run, rules)
        if rule is not None and rule.serverwide:
            return named(failure, run, rules, "first")
    return None


def _hung(run: Run, rules: Sequence[Rule]) -> Cause | None:
    hang = run.hang_first
    if hang is None or run.stopped is not None or run.hang_count < (_HANG_NOTICES if run.ready else 1):
        return None
    failure = Failure("hang", Owner("worker"), hang.number, hang.text[:400].strip(), run.stage)
    rule = hang_rule(run, rules, run.stage)
    return _found(failure, hang.number, run, rule, "hang")


def _ended(run: Run, rules: Sequence[Rule], complete: bool) -> Cause | None:
    """The output ends badly, or before the server was up, with no word of why."""
    if run.exit_codes and run.exit_codes[-1][2] not in (0, 143, 130):
        number, text, _ = run.exit_codes[-1]
        return _wordless(run, rules, number, text, Owner("container"))
    if not complete or run.ready or run.served or not run.has_banner:
        return None
    owner = Owner("api_server", pid=run.banner_pid)
    if run.told:
        return _wordless(run, rules, run.told, "told to stop before it was ready", owner)
    return None if run.stopped else _wordless(run, rules, None, "", owner)


def _wordless(run: Run, rules: Sequence[Rule], line: int | None, text: str, owner: Owner) -> Cause:
    failure = Failure("ended", owner, line or run.last_line, text, run.stage)
    doing = text or (f"after: {run.last_work.text[:400]}" if run.last_work else "")
    rule = ruling.best(rules, doing, company(run, run.stage, "ended"))
    if rule is not None and rule.process:
        failure.owner = Owner(rule.process)
    return _found(failure, line, run, rule, "ended")


def _found(failure: Failure, line: int | None, run: Run, rule: Rule | None, basis: str, detail: str = "") -> Cause:
    category = rule.category if rule else UNKNOWN
    return Cause(failure, failure.owner, line, failure.exception, failure.stage, rule, basis, category, detail)


def _degraded(run: Run, rules: Sequence[Rule]) -> Cause | None:
    guessing = "'ngram" in run.arguments or "'suffix'" in run.arguments
    found = run.acceptance.judge(guessing=guessing)
    if found is None:
        return None
    sample, why = found
    failure = Failure("acceptance", Owner("none"), sample.line, sample.text.strip(), "serving")
    rule = ruling.best(rules, failure.exception, company(run, "serving", "acceptance"))
    return _found(failure, sample.line, run, rule, "acceptance", why)


def notable(run: Run, cause: Cause) -> list[Line]:
    """Warnings and errors shortly before the cause, for the evidence."""
    at = cause.line or run.last_line
    return [n for n in [*run.early_notices, *run.notices] if at - 40 <= n.number < at][-3:]
