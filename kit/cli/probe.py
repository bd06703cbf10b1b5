"""`kit probe`: what the cards of this machine are, how they are linked, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.cli import out


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print kit.gpus/1 for programs.")] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Expect the GPUs that this kit.yaml asks for.", show_default=False),
    ] = None,
    expect: Annotated[int | None, typer.Option(min=0, help="How many GPUs there should be.")] = None,
    limit: Annotated[
        float,
        typer.Option(min=0.1, envvar="KIT_NVML_LIMIT", help="Seconds a driver call may take (the first: 6 times)."),
    ] = 5.0,
    dump: Annotated[
        Path | None, typer.Option("--from", help="Look at a kit.gpus/1 file of another machine instead.")
    ] = None,
    anonymize: Annotated[
        bool, typer.Option("--anonymize", help="Replace UUIDs, serial numbers, process ids, users and containers.")
    ] = False,
) -> None:
    """Show the GPUs, their links and what is wrong with them; nothing is changed and nothing needs root."""
    from kit.config import load
    from kit.config.schema import Gpus
    from kit.errors import MissingError
    from kit.gpu.document import as_document, read_document
    from kit.gpu.findings import Expected
    from kit.gpu.judge import judge
    from kit.gpu.probe import probe
    from kit.gpu.show import report
    from kit.gpu.snapshot import anonymous

    snapshot = read_document(dump) if dump else probe(limit)
    if anonymize:
        snapshot = anonymous(snapshot)
    wanted = load(file).kit.gpus if file else Gpus()
    findings = judge(snapshot, Expected(wanted.count if expect is None else expect, wanted.name))
    if as_json:
        out.as_json(as_document(snapshot, findings))
    else:
        out.data(out.clean(report(snapshot, findings, every_gap=out.verbose), "\n"))
    if not snapshot.gpus:
        raise MissingError(
            "no GPU answers here",
            hint="a deployment on the CPU needs none (engine.device: cpu); for one on GPUs see what is found above",
        )
