"""The cases of cases.yaml as typed values, the kit.yaml of each, and the judgement of what was found; pure."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

FILE = Path(__file__).with_name("cases.yaml")
FIRST_PORT = 18000


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Kill(_Model):
    """When the worker of a `rank` gets a signal: `after` seconds after the log shows `when` the `occurrence`-th time.

    `when: ready` means: after `kit up` came back.
    """

    when: str
    occurrence: int = 1
    after: float = 0.0
    rank: int = 0
    signal: Literal["KILL", "STOP"] = "KILL"


class Hold(_Model):
    """GPU memory that another process holds meanwhile: GiB, and of which card."""

    gib: int
    card: int = 0


class Expect(_Model):
    """What must be found: exit code of `kit up`, verdict of `kit status` afterwards, the diagnosis of a failure, what
    `kit doctor` said before the start, and figures of the log. `learnt`: written after a first run had shown it."""

    exit: int
    status: str | None = None
    category: list[str] = []
    process: list[str] = []
    rank: int | None = None
    line: str | None = None
    summary: str | None = None
    learnt: bool = False
    doctor: dict[str, str] = {}
    figures: dict[str, str] = {}


class Case(_Model):
    """One deployment and what is to be seen of it; the head of cases.yaml explains the fields."""

    id: str
    phase: str
    text: str
    kit: dict[str, Any] = {}
    cards: int = 1
    hold: Hold | None = None
    kill: Kill | None = None
    no_smoke: bool = False
    measure: bool = False
    plan: bool = False
    expect: Expect


class CaseFile(_Model):
    """cases.yaml."""

    base: dict[str, Any]
    pair: dict[str, Any]
    without_gpu: dict[str, Any]
    cases: list[Case]


@dataclass(frozen=True)
class Found:
    """What a case showed: exit of `kit up`, verdict of `kit status`, the diagnosis, the text of the line it names, the
    checks of `kit doctor` that did not pass, the figures of the log."""

    exit: int
    status: str | None
    diagnosis: dict[str, Any] | None
    line: str
    doctor: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)


def found(row: Mapping[str, Any]) -> Found:
    """What the row of a result says that its case showed."""
    not_passed = (row.get("doctor") or {}).get("not_passed") or {}
    diagnosis = (row.get("report") or {}).get("diagnosis")
    return Found(row["up"], row["status"], diagnosis, row["line"], not_passed, row.get("figures") or {})


def read(path: Path = FILE) -> CaseFile:
    """The file's content. Raises ValueError where it is not as the models above say."""
    return CaseFile.model_validate(yaml.safe_load(path.read_text()))


def phases(cases: Iterable[Case]) -> list[str]:
    """The phases in the order of the file."""
    return list(dict.fromkeys(case.phase for case in cases))


def kit_yaml(content: CaseFile, number: int, bed: dict[str, Any], *, gpu: bool) -> dict[str, Any]:
    """The kit.yaml of case `number`; `bed` gives `image`, `mounts` (paths) and `site` (where vLLM lies)."""
    case = content.cases[number]
    mounts = [{"source": path, "target": path} for path in bed["mounts"]]
    own = {
        "schema": "kit/1",
        "name": case.id,
        "engine": {"existing": bed["image"]},
        "server": {"network": "host", "port": FIRST_PORT + number},
        "mounts": mounts,
    }
    under = merge(content.base, content.pair) if case.cards == 2 else content.base
    merged = merge(merge(under, own), case.kit)
    merged["mounts"] = mounts + [
        mount | {"target": mount["target"].replace("{site}", bed["site"])} for mount in case.kit.get("mounts", [])
    ]
    if not gpu:
        merged = merge(merged, content.without_gpu)
        merged["engine"]["args"] = []
    return _without_nulls(merged)


def merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid over `under`, key by key; lists and null replace what they cover."""
    result = copy.deepcopy(under)
    for key, value in over.items():
        inner = result.get(key)
        result[key] = (
            merge(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else copy.deepcopy(value)
        )
    return result


def faults(expect: Expect, found: Found) -> list[str]:
    """Every way in which what was found is not what was expected; empty when all is right."""
    rows = []
    if found.exit != expect.exit:
        rows.append(f"kit up ended with {found.exit}, not {expect.exit}")
    if expect.status and found.status != expect.status:
        rows.append(f"kit status says {found.status}, not {expect.status}")
    for kind, wanted, said in (("kit doctor", expect.doctor, found.doctor), ("figure", expect.figures, found.figures)):
        for name, pattern in wanted.items():
            if not re.search(pattern, said.get(name, "")):
                rows.append(f"{kind} {name}: {said.get(name, 'nothing')!r} does not hold {pattern!r}")
    if not expect.category:
        return rows
    root = (found.diagnosis or {}).get("root_cause")
    if root is None:
        return [*rows, "no diagnosis names a cause"]
    if root["category"] not in expect.category:
        rows.append(f"diagnosed as {root['category']}, not {' or '.join(expect.category)}")
    if expect.process and root["process"] not in expect.process:
        rows.append(f"the diagnosis blames {root['process']}, not {' or '.join(expect.process)}")
    if expect.rank is not None and root.get("rank") != expect.rank:
        rows.append(f"the diagnosis blames rank {root.get('rank')}, not {expect.rank}")
    if expect.summary and not re.search(expect.summary, root.get("summary", "")):
        rows.append(f"the summary does not hold {expect.summary!r}: {root.get('summary', '')[:120]}")
    if expect.line and not re.search(expect.line, found.line):
        rows.append(f"line {root['line']} does not hold {expect.line!r}: {found.line[:120]}")
    return rows


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value
