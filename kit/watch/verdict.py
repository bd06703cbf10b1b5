"""What watching saw and no log line says, as a diagnosis: a start that hangs, a process that is gone; pure."""

from __future__ import annotations

from dataclasses import replace

from kit.logs import Diagnosis, RootCause
from kit.logs.model import Quote
from kit.watch.halfdead import Missing
from kit.watch.hang import Judgement
from kit.watch.model import Snapshot
from kit.watch.patterns import patterns
from kit.watch.words import duration

# stage of a start -> stage of the diagnosis contract
STAGES = {
    "boot": "config", "config": "config", "processes": "config", "nccl": "load", "load": "load",
    "draft-load": "draft-load", "profile": "warmup", "compile": "warmup", "kv-cache": "kv-cache", "warmup": "warmup",
    "capture": "warmup", "api": "warmup", "serving": "serving", "shutdown": "shutdown",
}  # fmt: skip
_GONE = (
    "was it killed for memory? dmesg | grep -iE 'oom|killed process' and limits.memory in kit.yaml",
    "did it crash? dmesg | grep -iE 'segfault|traps|Xid'",
)


_SLOW = "limits.start_timeout in kit.yaml, when a start may take so long here"


def hung(diagnosis: Diagnosis, judgement: Judgement, now: Snapshot, reason: str) -> Diagnosis:
    """The diagnosis of a start that was given up for `reason`: it hangs, or its time is over; a cause that the log
    names stays."""
    if names_a_cause(diagnosis):
        return diagnosis
    if not judgement.text:
        stage = patterns().stages[now.stage].title
        text = f"{reason[:1].upper()}{reason[1:]}, and nothing says that it hangs; the stage: {stage}."
        return _with(diagnosis, now, "timeout-hang", "none", None, None, text, (_SLOW,), 0.5)
    sign = judgement.sign
    category = sign.category if sign and sign.category else "timeout-hang"
    text = f"No progress for {duration(judgement.quiet_s)}: {judgement.text}."
    who, remedy = judgement.who, sign.remedy if sign else ()
    if who is None:
        return _with(diagnosis, now, category, "none", None, None, text, remedy, 0.6)
    return _with(diagnosis, now, category, who.role, who.rank, who.pid, text, remedy, 0.8)


def unanswered(diagnosis: Diagnosis, judgement: Judgement, now: Snapshot) -> Diagnosis:
    """The diagnosis of a service that leaves a request unanswered, with whoever keeps it from it. A cause that the log
    names stays; where it says only that somebody was waited for, its line stays."""
    who, sign, root = judgement.who, judgement.sign, diagnosis.root_cause
    if names_a_cause(diagnosis) or who is None or sign is None:
        return diagnosis
    text = f"A request was not answered: {judgement.text}."
    if root is None or root.line is None:
        return _with(diagnosis, now, sign.category, who.role, who.rank, who.pid, text, sign.remedy, 0.8)
    told = replace(root, process=who.role, rank=who.rank, pid=who.pid, summary=text, remedy=sign.remedy)
    return replace(diagnosis, root_cause=replace(told, category=sign.category))


def half_dead(diagnosis: Diagnosis, gone: tuple[Missing, ...], now: Snapshot, oom_kills: int | None) -> Diagnosis:
    """The diagnosis of a start in which a process vanished without a word; a cause that the log names stays.

    `oom_kills`: how many processes of the container the kernel ended for want of memory (None: cannot be seen).
    """
    if names_a_cause(diagnosis):
        return diagnosis
    first = max(gone, key=lambda m: m.seconds)
    who = first.process
    if oom_kills:
        category, how, sure = "host-oom-kill", "the kernel ended a process of this container for want of memory", 0.95
    elif oom_kills == 0:
        how = "not for want of memory: the kernel counts no such kill; so by a SIGKILL from outside, or a crash"
        category, sure = "native-crash", 0.8
    else:
        category, how, sure = "native-crash", "killed or crashed", 0.7
    text = f"The {first.name} ended without a word ({how}), and the rest of the server waits for it."
    return _with(diagnosis, now, category, who.role, who.rank, who.pid, text, _GONE, sure)


def names_a_cause(diagnosis: Diagnosis) -> bool:
    """Whether the log says more than that somebody was waited for."""
    root = diagnosis.root_cause
    return root is not None and root.line is not None and root.category not in ("unknown", "timeout-hang")


def _with(
    diagnosis: Diagnosis, now: Snapshot, category: str, process: str, rank: int | None, pid: int | None, text: str,
    remedy: tuple[str, ...], sure: float,
) -> Diagnosis:  # fmt: skip
    stage = STAGES.get(now.stage, "unknown")
    root = RootCause(category, process, rank, pid, "", None, stage, None, sure, text, remedy)
    last = (Quote(now.lines, now.last_text[:400]),) if now.last_text else ()
    quotes = {quote.line: quote for quote in (*diagnosis.evidence, *last)}
    evidence = tuple(quotes[line] for line in sorted(quotes))
    return replace(diagnosis, verdict="failed", root_cause=root, evidence=evidence)
