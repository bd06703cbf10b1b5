"""The cases of cases.yaml as typed values, the kit.yaml of each, and the judgement of what was found; pure."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

FILE = Path(__file__).with_name("cases.yaml")
FIRST_PORT = 18000


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Kill(_Model):
    """When the worker is killed: `after` seconds after the log shows `when` for the `occurrence`-th time.

    `when: ready` means: after `kit up` came back.
    """

    when: str
    occurrence: int = 1
    after: float = 0.0


class Expect(_Model):
    """What must be found: exit code of `kit up`, verdict of `kit status` afterwards, and the diagnosis of a failure."""

    exit: int
    status: str | None = None
    category: list[str] = []
    process: list[str] = []
    line: str | None = None


class Case(_Model):
    """One deployment and what is to be seen of it; the head of cases.yaml explains the fields."""

    id: str
    phase: str
    text: str
    kit: dict[str, Any] = {}
    hold: int = 0
    kill: Kill | None = None
    no_smoke: bool = False
    measure: bool = False
    plan: bool = False
    expect: Expect


class CaseFile(_Model):
    """cases.yaml."""

    base: dict[str, Any]
    without_gpu: dict[str, Any]
    cases: list[Case]


@dataclass(frozen=True)
class Found:
    """What a case showed: exit of `kit up`, verdict of `kit status`, the diagnosis, the text of the line it names."""

    exit: int
    status: str | None
    diagnosis: dict[str, Any] | None
    line: str


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
    merged = merge(merge(content.base, own), case.kit)
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
    if not expect.category:
        return rows
    root = (found.diagnosis or {}).get("root_cause")
    if root is None:
        return [*rows, "no diagnosis names a cause"]
    if root["category"] not in expect.category:
        rows.append(f"diagnosed as {root['category']}, not {' or '.join(expect.category)}")
    if expect.process and root["process"] not in expect.process:
        rows.append(f"the diagnosis blames {root['process']}, not {' or '.join(expect.process)}")
    if expect.line and not re.search(expect.line, found.line):
        rows.append(f"line {root['line']} does not hold {expect.line!r}: {found.line[:120]}")
    return rows


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value
