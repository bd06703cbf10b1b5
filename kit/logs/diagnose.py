"""From a log to a diagnosis: reads, decides which run counts, and puts the answer together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from kit.logs import causes
from kit.logs.causes import Cause
from kit.logs.model import HEALTHY, Diagnosis, Quote, RootCause
from kit.logs.reading import Splitter
from kit.logs.rules import Rule, load
from kit.logs.runs import Reader, Run

_CHUNK = 1 << 20


def diagnose_file(path: Path, *, rules: Sequence[Rule] | None = None, complete: bool = True) -> Diagnosis:
    """The diagnosis of one log file. Raises OSError when it cannot be read."""
    reader, splitter = Reader(), Splitter()
    with path.open("rb") as handle:
        while chunk := handle.read(_CHUNK):
            for number, text in splitter.feed(chunk):
                reader.feed(number, text)
    for number, text in splitter.finish():
        reader.feed(number, text)
    reader.finish()
    return conclude(reader, rules, complete=complete)


def diagnose_lines(lines: Iterable[str], *, rules: Sequence[Rule] | None = None, complete: bool = True) -> Diagnosis:
    """The diagnosis of lines already split at newlines."""
    reader = Reader()
    for number, text in enumerate(lines, start=1):
        reader.feed(number, text.rstrip("\n"))
    reader.finish()
    return conclude(reader, rules, complete=complete)


def conclude(
    reader: Reader, rules: Sequence[Rule] | None = None, *, complete: bool = True, run: int | None = None
) -> Diagnosis:
    """The diagnosis of the run asked for (`run`, from 1), else of the last.

    When the last run has only begun and the one before it failed, the failure is the answer.
    """
    rules = load() if rules is None else rules
    chosen = reader.runs[-1] if run is None else next(r for r in reader.runs if r.number == run)
    cause = causes.find(chosen, rules, complete=complete)
    notes: list[str] = []
    if run is None and len(reader.runs) > 1 and (cause is None or cause.basis == "ended") and _only_begun(chosen):
        before = causes.find(reader.runs[-2], rules)
        if before is not None and before.basis != "acceptance":
            notes.append(
                f"run {chosen.number} has only begun (line {chosen.first_line}); this is run {chosen.number - 1}"
            )
            chosen, cause = reader.runs[-2], before
    return _diagnosis(reader, chosen, cause, notes)


def _only_begun(run: Run) -> bool:
    return not (run.ready or run.served or run.engine_up or run.exit_codes or run.failures)


def _diagnosis(reader: Reader, run: Run, cause: Cause | None, notes: list[str]) -> Diagnosis:
    runs = reader.run_count
    if cause is None:
        return Diagnosis(HEALTHY, None, (), runs, reader.lines, (), run.version, tuple(notes))
    verdict = "degraded" if cause.basis == "acceptance" else "failed"
    links = causes.chain(run, cause)
    evidence = [Quote(n.number, n.text[:400]) for n in causes.notable(run, cause)]
    if cause.line is not None:
        evidence.append(Quote(cause.line, cause.exception.split("\n", 1)[0][:400]))
    evidence += [Quote(link.line, link.exception) for link in links[1:]]
    if cause.basis in ("ended", "silent"):
        evidence += [Quote(n.number, n.text[:400]) for n in run.last_lines][-3:]
    root = RootCause(
        cause.category,
        cause.owner.role,
        cause.owner.rank,
        cause.owner.pid,
        cause.exception,
        cause.line,
        cause.stage,
        cause.rule.id if cause.rule else None,
        confidence(cause),
        summary(cause),
        cause.rule.remedy if cause.rule else _COLLECT,
    )
    quotes = tuple(sorted({q.line: q for q in evidence}.values(), key=lambda q: q.line))
    return Diagnosis(verdict, root, tuple(links), runs, reader.lines, quotes, run.version, tuple(notes))


_COLLECT = (
    "no rule knows this failure; the chain above is what the log says",
    "keep the whole log from the start of this run: kit support",
)


def summary(cause: Cause) -> str:
    """What the failure means, in a sentence or two."""
    if cause.rule is not None:
        return f"{cause.rule.cause} ({cause.detail})" if cause.detail else cause.rule.cause
    if cause.basis == "silent":
        return f"The {cause.owner.role.replace('_', ' ')} ended without a word. {cause.detail}".strip()
    if cause.basis == "ended":
        return "The log ends while the server was starting; nothing says why."
    if cause.basis == "hang":
        return "The processes wait for one another and nothing moves on; no error was printed."
    return (
        f"This is the first failure that nothing else explains; it came from the {cause.owner.role.replace('_', ' ')}."
    )


def confidence(cause: Cause) -> float:
    """How often answers found this way are right."""
    if cause.rule is None:
        return 0.4
    return 0.9
