"""docs/watching.md: the stages, signs and redactions, from the data files that they live in."""

from __future__ import annotations

from kit.support.redact import rules
from kit.watch.hang import signs
from kit.watch.patterns import patterns


def watching_page() -> str:
    """The text of docs/watching.md."""
    known = patterns()
    lines = [
        "# Watching a start, the report, the support bundle",
        "",
        "Generated from `kit/watch/stages.toml`, `kit/watch/signs.toml` and `kit/support/redactions.toml`; `make docs`",
        "writes it anew. `kit up` shows these stages; `kit up --events` tells them as JSON lines (`kit.event/1`), and",
        "every run folder keeps them in `events.jsonl` and `stages.json` (`kit.stages/1`) for `kit report` and for the",
        "estimates of later starts.",
        "",
        "## Stages",
        "",
        "Silence: how long nothing need be printed and nothing move before a start counts as hung.",
        "`limits.stall_timeout` bounds them all, `limits.stage_timeouts` changes single ones.",
        "",
        "| stage | what | silence | lines that show it |",
        "| --- | --- | --- | --- |",
    ]
    for name, stage in known.stages.items():
        silence = (
            f"{stage.stall} s"
            if stage.stall
            else "stall_timeout" + (f" x {stage.factor:g}" if stage.factor != 1 else "")
        )
        shown = [mark.example for mark in known.marks if mark.stage == name]
        shown += [bar.example for bar in known.bars if bar.stage == name]
        lines.append(f"| `{name}` | {stage.title} | {silence} | {'<br>'.join(_code(text) for text in shown)} |")
    lines += [
        "",
        "## Signs of a standstill",
        "",
        "Judged when nothing moved for a minute; a start is given up at its stage's limit, with the stacks of all",
        "processes in the run folder: `stacks.txt` by Python's own fault handler inside the container, and",
        "`processes.txt` with what the kernel knows of each process and its threads. Where py-spy is installed",
        "(`.venv/bin/pip install py-spy`, or any on `PATH`) and `kit up` runs as root, that file holds every process's",
        "Python stacks too, of stopped processes and of those that the fault handler does not reach.",
        "",
        "| sign | what is said | category | what to try |",
        "| --- | --- | --- | --- |",
    ]
    for sign in signs().values():
        tries = "<br>".join(_cell(text) for text in sign.remedy)
        lines.append(f"| `{sign.id}` | {_cell(sign.text)} | {sign.category or '-'} | {tries} |")
    lines += [
        "",
        "## What a support bundle leaves out",
        "",
        "`kit support` redacts by these rules, and by the key, user and host names that this machine itself knows;",
        "`--redact REGEX` adds more. `redactions.json` in the archive says what was replaced where, never by what.",
        "",
        "| rule | example | becomes |",
        "| --- | --- | --- |",
    ]
    lines += [f"| `{rule.id}` | {_code(rule.example)} | {_code(rule.shown)} |" for rule in rules()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _code(text: str) -> str:
    flat = " ".join(text.split()).replace("|", "\\|")
    return f"`{flat[:90] + '...' if len(flat) > 93 else flat}`"
