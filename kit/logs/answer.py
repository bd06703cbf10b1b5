"""A diagnosis as JSON (the contract) and as one screen for a person."""

from __future__ import annotations

from typing import Any

from kit.cli.out import clean
from kit.logs.model import Diagnosis

SCHEMA = "kit.diagnosis/1"


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The JSON contract `kit.diagnosis/1`."""
    root = diagnosis.root_cause
    return {
        "schema": SCHEMA,
        "verdict": diagnosis.verdict,
        "root_cause": None if root is None else {
            "category": root.category,
            "process": root.process,
            "rank": root.rank,
            "pid": root.pid,
            "exception": root.exception,
            "line": root.line,
            "stage": root.stage,
            "rule": root.rule,
            "confidence": round(root.confidence, 2),
            "summary": root.summary,
            "remedy": list(root.remedy),
        },
        "chain": [{"process": c.process, "line": c.line, "exception": c.exception} for c in diagnosis.chain],
        "runs": diagnosis.runs,
        "lines": diagnosis.lines,
        "evidence": [{"line": e.line, "text": e.text} for e in diagnosis.evidence],
        "version": diagnosis.version,
        "notes": list(diagnosis.notes),
    }  # fmt: skip


_NAMES = {"worker": "worker", "engine_core": "engine core", "api_server": "API server", "container": "container"}


def render_text(diagnosis: Diagnosis, *, path: str = "", colour: bool = False, width: int = 100) -> str:
    """One screen: what died first, what it means, the chain, what to do, the lines. Control characters are shown."""
    bold, red, yellow, green, dim, end = (
        ("\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[0m") if colour else ("",) * 6
    )
    tint = {"failed": red, "degraded": yellow, "healthy": green}[diagnosis.verdict]
    version = f", vLLM {diagnosis.version}" if diagnosis.version else ""
    runs = f"{diagnosis.runs} runs" if diagnosis.runs != 1 else "1 run"
    out = [f"{tint}{bold}{diagnosis.verdict}{end}  {dim}{diagnosis.lines} lines, {runs}{clean(version)}{end}"]
    out += [f"{dim}note: {clean(note)}{end}" for note in diagnosis.notes]
    root = diagnosis.root_cause
    if root is None:
        out.append("Nothing in this log says that the server failed.")
        return "\n".join(out)
    who = _NAMES.get(root.process, "")
    where = f" rank {root.rank}" if root.rank is not None else ""
    pid = f" (pid {root.pid})" if root.pid is not None else ""
    place = f"{path}:{root.line}" if path and root.line else f"line {root.line}" if root.line else "no line of its own"
    first = "first" if diagnosis.verdict == "failed" else "seen in"
    by, place = f"{who}{where}{pid}", clean(place)
    if by and len(first) + len(by) + len(place) + len(root.stage) + 13 > width:
        out += [f"{bold}{first}:{end}  {by}, stage {root.stage}", f"  {place}"]
    else:
        out.append(f"{bold}{first}:{end}  {by}{', ' if by else ''}{place}, stage {root.stage}")
    out.append(
        f"{bold}cause:{end}  {root.category} ({root.confidence:.0%} sure{', ' + root.rule if root.rule else ''})"
    )
    out += [f"  {line}" for line in _wrap(clean(root.summary), width - 2)]
    if root.exception:
        out += [f"  {dim}>{end} {clean(line)[: width * 2]}" for line in root.exception.split("\n")[:4] if line.strip()]
    if len(diagnosis.chain) > 1:
        out.append(f"{bold}then:{end}")
        out += [
            f"  {c.line:>7}  {_NAMES.get(c.process, '-'):<11} {clean(c.exception)[: width - 24]}"
            for c in diagnosis.chain[1:7]
        ]
    out.append(f"{bold}do:{end}")
    for item in root.remedy:
        lines = _wrap(clean(item), width - 4)
        out += [f"  - {lines[0]}", *(f"    {line}" for line in lines[1:])]
    out.append(f"{bold}evidence:{end}")
    out += [f"  {dim}{e.line:>7}{end}  {clean(e.text)[: width - 11]}" for e in diagnosis.evidence[:8]]
    return "\n".join(out)


def _wrap(text: str, width: int) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]
