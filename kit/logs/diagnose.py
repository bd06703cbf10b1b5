"""From a log to a diagnosis: reads, decides which run counts, and puts the answer together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from kit.logs import causes, host, inputs, windows
from kit.logs.confidence import confidence
from kit.logs.host import Host
from kit.logs.model import HEALTHY, Diagnosis, Link, Quote, RootCause
from kit.logs.naming import Cause
from kit.logs.reader import Reader
from kit.logs.reading import Splitter
from kit.logs.rules import Rule, load
from kit.logs.run import Run


def diagnose_file(
    path: Path, *, rules: Sequence[Rule] | None = None, beside: Host | None = None, complete: bool = True
) -> Diagnosis:
    """The diagnosis of one log file, plain or compressed.

    `beside` is evidence from outside the log; `complete` is false while the server may still write.
    Raises OSError when the file cannot be read.
    """
    rules = load() if rules is None else rules
    return conclude(read_file(path, rules), rules, beside=beside, complete=complete)


def diagnose_lines(lines: Iterable[str], *, rules: Sequence[Rule] | None = None, complete: bool = True) -> Diagnosis:
    """The diagnosis of lines already split at newlines."""
    reader = Reader()
    for number, text in enumerate(lines, start=1):
        reader.feed(number, text.rstrip("\n"))
    reader.finish()
    return conclude(reader, rules, complete=complete)


def read_file(path: Path, rules: Sequence[Rule]) -> Reader:
    """The runs of one file; of a very long one only what decides (`windows`)."""
    if path.is_file() and path.stat().st_size > windows.SMALL and not inputs.packed(path):
        return windows.read(path, lambda reader, line: _settled(reader, line, rules))
    return read_chunks(inputs.chunks(path))


def read_chunks(chunks: Iterable[bytes]) -> Reader:
    """The runs of a log that comes as chunks of bytes."""
    reader, splitter = Reader(), Splitter()
    for chunk in chunks:
        for number, text in splitter.feed(chunk):
            reader.feed(number, text)
    for number, text in splitter.finish():
        reader.feed(number, text)
    reader.finish()
    return reader


def _settled(reader: Reader, first: int, rules: Sequence[Rule]) -> bool:
    """Whether the end of a long log, read from line `first` on, holds all of the last run's end.

    It does when the server was seen at work in it, before the cause if there is one.
    """
    run = reader.run
    if not run.gap:
        return True
    cause = causes.find(run, rules)
    if cause is None or cause.basis == "acceptance":
        return run.alive is not None
    return run.alive is not None and cause.line is not None and run.alive < cause.line


def conclude(
    reader: Reader,
    rules: Sequence[Rule] | None = None,
    *,
    beside: Host | None = None,
    complete: bool = True,
    run: int | None = None,
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
            notes.append(f"run {chosen.number} has only begun (line {chosen.first_line}): this is the run before it")
            chosen, cause = reader.runs[-2], before
    cause, more, quotes = host.join(cause, chosen, beside, rules)
    return _diagnosis(reader, chosen, cause, [*notes, *more], quotes)


def _only_begun(run: Run) -> bool:
    return not (run.ready or run.served or run.engine_up or run.exit_codes or run.failures)


def _diagnosis(reader: Reader, run: Run, cause: Cause | None, notes: list[str], beside: list[Quote]) -> Diagnosis:
    if cause is None:
        return Diagnosis(HEALTHY, None, (), reader.run_count, reader.lines, tuple(beside), run.version, tuple(notes))
    links = causes.chain(run, cause)
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
        cause.rule.remedy if cause.rule else COLLECT,
    )
    return Diagnosis(
        "degraded" if cause.basis == "acceptance" else "failed",
        root,
        tuple(links),
        reader.run_count,
        reader.lines,
        (*_evidence(run, cause, links), *beside),
        run.version,
        tuple(notes),
    )


def _evidence(run: Run, cause: Cause, links: Sequence[Link]) -> list[Quote]:
    """The lines that show it, in the order of the log."""
    quotes = [Quote(n.number, n.text[:400]) for n in causes.notable(run, cause)]
    if cause.line is not None:
        quotes.append(Quote(cause.line, cause.exception.split("\n", 1)[0][:400]))
    quotes += [Quote(link.line, link.exception) for link in links[1:]]
    if cause.basis in ("ended", "silent"):
        quotes += [Quote(n.number, n.text[:400]) for n in run.last_lines][-3:]
    return sorted({q.line: q for q in quotes if q.line}.values(), key=lambda q: q.line)


COLLECT = (
    "no rule knows this failure: the exception and the chain are what the log says of it",
    "read the lines around it; kit report packs log, state and versions for someone else to look at",
)


def summary(cause: Cause) -> str:
    """What the failure means, in a sentence or two."""
    if cause.rule is not None:
        return f"{cause.rule.cause} ({cause.detail})" if cause.detail else cause.rule.cause
    who = cause.owner.role.replace("_", " ")
    if cause.basis == "silent":
        return f"The {who} ended without a word. {cause.detail}".strip()
    if cause.basis == "ended":
        return "The output ends, and nothing in it says why."
    if cause.basis == "hang":
        return "The processes wait for one another and nothing moves on; no error was printed."
    return f"This is the first failure that nothing else explains; it came from the {who}."
