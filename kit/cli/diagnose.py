"""`kit diagnose`: the first cause of a failure, from a log. It reads its own arguments, to answer at once."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kit.cli import out
from kit.errors import EXIT_GOOD, EngineFailed, GateError, MissingError, UsageError

if TYPE_CHECKING:
    from kit.logs.host import Host
    from kit.logs.reader import Reader
    from kit.logs.rules import Rule


def command(arguments: list[str]) -> int:
    """Name the first cause in a vLLM log: what died first, why, and what to do."""
    from kit.logs.rules import load

    asked = _parser().parse_args(arguments)
    rules = load(asked.rules)
    reader, beside, name = _read(asked, rules)
    if asked.run is not None and asked.run not in {r.number for r in reader.runs}:
        raise UsageError(f"the log holds {reader.run_count} runs, not {asked.run}", hint="kit diagnose --all-runs LOG")
    return _answer(asked, reader, beside, rules, name)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint="kit diagnose --help")


def _parser() -> _Parser:
    parser = _Parser(
        prog="kit diagnose",
        description=command.__doc__,
        epilog="Exit code: 0 healthy, 3 degraded, 4 failed; 2 and 5 as everywhere (docs/exit-codes.md).",
    )
    add = parser.add_argument
    add(
        "logs",
        nargs="*",
        metavar="LOG",
        help="log files, also .gz and .zst, rotated ones together; - is standard input",
    )
    add("--container", metavar="NAME", help="read the log and the state of a container")
    add("--compose", metavar="FILE", nargs="?", const="compose.yaml", type=Path, help="those of a compose project")
    add("--journal", metavar="UNIT", help="read what journald holds of a unit")
    add("--host", action="store_true", help="ask this host's kernel and disks too (the log must be of this host)")
    add("--run", type=int, metavar="N", help="the Nth start in the log; default: the last")
    add("--all-runs", action="store_true", help="every start in the log, one after another")
    add("--rules", type=Path, action="append", default=[], metavar="FILE", help="rules of your own, tried first")
    add("--json", action="store_true", help="the answer as JSON (kit.diagnosis/1)")
    add("-f", "--file", type=Path, metavar="KIT_YAML", help="without LOG: the last start of this deployment")
    return parser


def _read(asked: argparse.Namespace, rules: Sequence[Rule]) -> tuple[Reader, Host | None, str]:
    """The runs of what was asked for, evidence beside it, and what to call it."""
    from kit.logs import inputs
    from kit.logs.diagnose import read_chunks, read_file

    sources = sum(bool(x) for x in (asked.logs, asked.container, asked.compose, asked.journal))
    if sources > 1:
        raise UsageError("give log files, or one of --container, --compose, --journal", hint="kit diagnose --help")
    if asked.container or asked.compose:
        from kit.logs import collect

        source = collect.container_log(asked.container) if asked.container else collect.compose_log(asked.compose)
        with source as (chunks, beside):
            return read_chunks(chunks), beside, asked.container or str(asked.compose)
    if asked.journal:
        from kit.logs import collect

        last = [b""]
        reader = read_chunks(last.__setitem__(0, line) or line for line in collect.journal_log(asked.journal))
        ended = collect.seconds(last[0].split(b" ", 1)[0].decode())
        return reader, collect.host(ended=ended), asked.journal
    if not asked.logs and (name := _served(asked.file)):
        return _read(argparse.Namespace(**vars(asked) | {"container": name}), rules)
    paths = [Path(p) for p in asked.logs] or [_last_log(asked.file)]
    for path in paths:
        if str(path) != "-":
            inputs.check(path)
    host = _host(paths) if asked.host else None
    if len(paths) == 1 and str(paths[0]) != "-":
        return read_file(paths[0], rules), host, str(paths[0])
    ordered = inputs.in_order(paths)
    chunks = (c for p in ordered for c in (_standard_input() if str(p) == "-" else inputs.chunks(p)))
    return read_chunks(chunks), host, "" if len(ordered) > 1 else "-"


def _host(paths: Sequence[Path]) -> Host:
    """What this host knows, as of the time when the log was last written."""
    from kit.logs import collect

    return collect.host(ended=max((p.stat().st_mtime for p in paths if p.is_file()), default=None))


def _standard_input() -> Iterator[bytes]:
    while chunk := os.read(sys.stdin.fileno(), 1 << 16):
        yield chunk


def _served(file: Path | None) -> str | None:
    """The deployment's container, if its last start came up: then the log goes on there. None without an engine."""
    from kit.config import load
    from kit.logs import collect
    from kit.render.container import container_name
    from kit.serve.runs import latest_run

    deployment = load(file, [])
    run = latest_run(deployment)
    if run is None or ((run / "container.log").exists() and not (run / "run.json").exists()):
        return None
    name = container_name(deployment)
    return name if collect.exists(name) else None


def _last_log(file: Path | None) -> Path:
    """The log of the last start of the deployment."""
    from kit.config import load
    from kit.serve.runs import latest_run

    deployment = load(file, [])
    run = latest_run(deployment)
    log = run / "container.log" if run else None
    if log is None or not log.exists():
        raise MissingError(f"{deployment.name} has not been started yet", hint="kit up; or kit diagnose LOG")
    return log


def _answer(asked: argparse.Namespace, reader: Reader, beside: Host | None, rules: Sequence[Rule], name: str) -> int:
    from kit.logs import conclude, render_text, to_json

    if asked.all_runs:
        found = [conclude(reader, rules, run=run.number) for run in reader.runs[:-1]]
        found.append(conclude(reader, rules, beside=beside, run=reader.runs[-1].number))
    else:
        found = [conclude(reader, rules, beside=beside, run=asked.run)]
    last = found[-1]
    if asked.json:
        answer = to_json(last)
        if asked.all_runs:
            starts = [run.first_line for run in reader.runs]
            answer["all_runs"] = [{"first_line": line, **to_json(d)} for line, d in zip(starts, found, strict=True)]
        out.as_json(answer)
    else:
        colour = out.colour(sys.stdout)
        for run, diagnosis in zip(reader.runs[-len(found) :], found, strict=True):
            if asked.all_runs:
                out.data(f"\nrun {run.number}, from line {run.first_line}")
            out.data(render_text(diagnosis, path=name, colour=colour, width=out.width(sys.stdout)), coloured=True)
    codes = {"failed": EngineFailed.exit_code, "degraded": GateError.exit_code}
    return codes.get(last.verdict, EXIT_GOOD)
