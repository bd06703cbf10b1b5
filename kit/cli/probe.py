"""`kit probe`: what the cards are and what is wrong with them. It reads its own arguments, to answer at once."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from kit.cli import out
from kit.cli.quick import Parser
from kit.errors import EXIT_GOOD, MissingError

if TYPE_CHECKING:
    from kit.gpu.findings import Expected


def command(arguments: list[str]) -> int:
    """Show the GPUs, their links and what is wrong with them; nothing is changed and nothing needs root."""
    from kit.gpu.document import as_document, read_document
    from kit.gpu.judge import judge
    from kit.gpu.probe import probe
    from kit.gpu.show import report
    from kit.gpu.snapshot import anonymous

    asked = _parser().parse_args(arguments)
    snapshot = read_document(asked.dump) if asked.dump else probe(asked.limit)
    if asked.anonymize:
        snapshot = anonymous(snapshot)
    findings = judge(snapshot, _expected(asked))
    if asked.json:
        out.as_json(as_document(snapshot, findings))
    else:
        out.data(out.clean(report(snapshot, findings, every_gap=out.verbose), "\n"))
    if not snapshot.gpus:
        raise MissingError(
            "no GPU answers here",
            hint="a deployment on the CPU needs none (engine.device: cpu); for one on GPUs see what is found above",
        )
    return EXIT_GOOD


def _expected(asked: argparse.Namespace) -> Expected:
    from kit.gpu.findings import Expected

    if not asked.file:
        return Expected(asked.expect)
    from kit.config import load

    wanted = load(asked.file).kit.gpus
    return Expected(wanted.count if asked.expect is None else asked.expect, wanted.name)


def _parser() -> Parser:
    parser = Parser(prog="kit probe", description=command.__doc__, epilog="Exit code: 5 where no GPU answers, else 0.")
    add = parser.add_argument
    add("--json", action="store_true", help="print kit.gpus/1 for programs")
    add("-f", "--file", type=Path, metavar="KIT_YAML", help="expect the GPUs that this deployment asks for")
    add("--expect", type=_count, metavar="N", help="expect N GPUs")
    add(
        "--limit",
        type=_seconds,
        default=os.environ.get("KIT_NVML_LIMIT", "5"),
        metavar="SECONDS",
        help="what a driver call may take, the first one 6 times as long (default: KIT_NVML_LIMIT, then 5)",
    )
    add("--from", dest="dump", type=Path, metavar="FILE", help="look at another machine's kit.gpus/1 file instead")
    add(
        "--anonymize",
        action="store_true",
        help="replace UUIDs, serial numbers, process ids, names, users and containers",
    )
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of GPUs")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 3600")
    return seconds
