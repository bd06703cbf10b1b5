"""Runs the process that asks NVML, with a limit on every call: a hung driver call ends after it and is named."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit import proc
from kit.gpu.records import CRASHED, HUNG, Record
from kit.parse import json_of

CALL_LIMIT_S = 5.0
# Without persistence mode the first call wakes every card, one after another: it may take this many times as long.
INIT_FACTOR = 6
MOST_RUNS = 4
START_LIMIT_S = 60.0  # to start Python and read the binding on a machine that is busy with other things


@dataclass
class Progress:
    """What the child has said so far in this run."""

    records: list[Record] = field(default_factory=list)
    asking: dict[str, Any] | None = None
    said: list[str] = field(default_factory=list)


def collect(call_limit_s: float = CALL_LIMIT_S) -> list[Record]:
    """Ask NVML everything; one record a call, those that hung or crashed included.

    After a call that did not come back the process is ended and another asks the rest, without that card (or
    without that call, where it is not about one card). At most four runs; raises nothing about the driver.
    """
    records: list[Record] = []
    skip: dict[str, list[Any]] = {"calls": [], "gpus": []}
    for _ in range(MOST_RUNS):
        progress = Progress()
        failure = _run(progress, skip, call_limit_s)
        records += progress.records
        if failure is None:
            break
        records.append(failure)
        if failure.field == "init":
            break
        if failure.gpu is not None and failure.peer is None:
            skip["gpus"].append(failure.gpu)
        else:
            skip["calls"].append(failure.call)
    return records


def _run(progress: Progress, skip: dict[str, list[Any]], call_limit_s: float) -> Record | None:
    """One run of the asking process; the record of the call that did not come back, or None."""

    def limit() -> float:
        if progress.asking is None:
            return START_LIMIT_S
        return call_limit_s * INIT_FACTOR if progress.asking["asks"] == "nvmlInit" else call_limit_s

    try:
        for line in _lines(skip, limit):
            _take(progress, line)
    except proc.ProcessFailed as error:
        hung = isinstance(error, proc.ProcessSilent)
        asking = progress.asking or {"asks": "nvmlInit", "gpu": None, "peer": None}
        how = f"did not come back within {limit():g} s" if hung else f"ended the process that made it: {error.message}"
        return Record(
            field="init" if asking["asks"] == "nvmlInit" else asking["asks"],
            call=asking["asks"],
            gpu=asking["gpu"],
            peer=asking["peer"],
            reason=HUNG if hung else CRASHED,
            text="; ".join([how, *progress.said[-3:]]),
            seconds=limit() if hung else 0.0,
        )
    return None


def _lines(skip: dict[str, list[Any]], limit: Callable[[], float]) -> Any:
    # The child must import the very same kit, whatever the current folder is.
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-P", "-m", "kit.gpu.nvml", json.dumps(skip)]
    return proc.lines(command, silence=limit, env={"PYTHONPATH": path})


def _take(progress: Progress, line: str) -> None:
    try:
        said = json_of(line)
        if "asks" in said:
            progress.asking = said
        else:
            progress.records.append(Record.from_line(said))
    except (ValueError, KeyError, TypeError):  # a driver library may print words of its own
        progress.said.append(line[:300])
