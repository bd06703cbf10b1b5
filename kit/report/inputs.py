"""The JSON files of a run, read at the border: a file that is not what it should be becomes None and a note."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kit.parse import json_of


class _Read(BaseModel):
    """What is read back: additions of a later kit are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class SpanIn(_Read):
    """A stage of a process; seconds since the start, `end` None while it lasted."""

    stage: str
    start: float
    end: float | None = None


class ProcessIn(_Read):
    """A process and its stages."""

    role: str
    rank: int | None = None
    pid: int | None = None
    spans: list[SpanIn] = []


class StagesIn(_Read):
    """kit.stages/1."""

    ready_s: float | None = None
    ended_s: float = 0.0
    stage: str = ""
    spans: list[SpanIn] = []
    processes: list[ProcessIn] = []
    figures: dict[str, float | str] = {}


class RootIn(_Read):
    """The first cause of a diagnosis."""

    category: str
    process: str
    rank: int | None = None
    pid: int | None = None
    exception: str = ""
    line: int | None = None
    stage: str = "unknown"
    rule: str | None = None
    confidence: float = 0.0
    summary: str = ""
    remedy: list[str] = []


class LinkIn(_Read):
    """One step from the first cause to the last symptom."""

    process: str
    line: int
    exception: str


class QuoteIn(_Read):
    """A line quoted as evidence."""

    line: int
    text: str


class DiagnosisIn(_Read):
    """kit.diagnosis/1."""

    verdict: str
    root_cause: RootIn | None = None
    chain: list[LinkIn] = []
    runs: int = 0
    lines: int = 0
    evidence: list[QuoteIn] = []
    version: str | None = None
    notes: list[str] = []


class GateIn(_Read):
    """One gate of the smoke test."""

    name: str
    want: str
    found: str
    status: str


class ExpectedIn(_Read):
    """What a reference pair must show."""

    num_drafts: int
    num_draft_tokens: int
    num_accepted_tokens: int
    per_position: list[int] = []


class SmokeIn(_Read):
    """kit.smoke/1."""

    verdict: str
    num_speculative_tokens: int = 0
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    acceptance_rate: float = 0.0
    mean_acceptance_length: float = 1.0
    per_position: list[float] = []
    expected: ExpectedIn | None = None
    gates: list[GateIn] = []
    requests: int = 0
    errors: int = 0
    ttft_s: float | None = None
    tokens_per_s: float | None = None


class CheckIn(_Read):
    """One check of the doctor."""

    id: str
    status: str
    title: str = ""
    found: str | None = None
    want: str | None = None
    fix: str | None = None


class DoctorIn(_Read):
    """kit.doctor/1."""

    verdict: str
    checks: list[CheckIn] = []


class GpuUse(_Read):
    """One card in a resource event."""

    index: int
    used_mib: int
    total_mib: int
    busy: int | None = None


class ResourcesIn(_Read):
    """A resource event of kit.event/1: what was used at `at` seconds."""

    at: float
    gpus: list[GpuUse] = []
    read_bytes_per_s: float | None = None
    cpu: float | None = None


class RunIn(_Read):
    """kit.run/1."""

    image: str | None = None
    ready_s: float | None = Field(None)


Document = TypeVar("Document", bound=BaseModel)


def read(path: Path, kind: type[Document], notes: list[str]) -> Document | None:
    """A JSON file as `kind`; None when it is not there, and a note when it is there and no good."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError, ValueError) as error:
        notes.append(f"{path.name} cannot be read: {str(error).splitlines()[0]}")
        return None


def read_resources(path: Path) -> list[ResourcesIn]:
    """The resource events of an events file; lines that are none are passed over."""
    found = []
    try:
        with path.open(errors="replace") as handle:
            for line in handle:
                if '"resources"' in line:
                    try:
                        found.append(ResourcesIn.model_validate(json_of(line)))
                    except (ValueError, ValidationError):
                        continue
    except OSError:
        return []
    return found
