"""Gathers what a report shows, from the last start of a deployment or from a log: the edge of the report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kit import __version__
from kit.config import Deployment
from kit.errors import KitError, MissingError
from kit.logs import diagnose_file, inputs, to_json
from kit.logs.reading import Splitter
from kit.report import inputs as read
from kit.report.memory import Row, rows
from kit.serve.runs import latest_start
from kit.watch.feed import of_file
from kit.watch.history import as_document

if TYPE_CHECKING:
    from kit.gpu.findings import Finding
    from kit.gpu.snapshot import Snapshot as Gpus
    from kit.plan.plan import Plan

AROUND = 2
MOST_QUOTED = 60
LONGEST = 400


@dataclass(frozen=True)
class Quoted:
    """A line of the log: its number, its text, and whether it is evidence or stands beside it. Number 0: a gap."""

    number: int
    text: str
    evidence: bool


@dataclass(frozen=True)
class Contents:
    """All that a report shows; what is None or empty was not there. Texts are as found, not yet escaped."""

    name: str
    made: str
    kit: str
    log: str
    facts: tuple[tuple[str, str], ...]
    stages: read.StagesIn | None
    diagnosis: read.DiagnosisIn | None
    quoted: tuple[Quoted, ...]
    smoke: read.SmokeIn | None
    doctor: read.DoctorIn | None
    gpus: Gpus | None
    findings: tuple[Finding, ...]
    memory: tuple[Row, ...]
    samples: tuple[read.ResourcesIn, ...]
    notes: tuple[str, ...]


def of_deployment(deployment: Deployment) -> Contents:
    """The last start of a deployment. Raises MissingError before the first."""
    run = latest_start(deployment)
    if run is None:
        raise MissingError(f"{deployment.name} has not been started yet", hint="kit up; or kit report LOG")
    notes: list[str] = []
    stages = read.read(run / "stages.json", read.StagesIn, notes)
    about = read.read(run / "run.json", read.RunIn, notes)
    after = sorted(p for p in deployment.runs.iterdir() if p.is_dir() and not p.is_symlink() and p >= run)
    smoke = _newest(after, "smoke.json", read.SmokeIn, notes)
    diagnosis = _newest(after, "diagnosis.json", read.DiagnosisIn, notes)
    if smoke is not None and smoke.verdict == "pass" and stages is not None and stages.ready_s is not None:
        diagnosis = None if _newest([run], "diagnosis.json", read.DiagnosisIn, notes) is None else diagnosis
    kept = deployment.state / "doctor"
    gpus, findings = _gpus(kept / "gpus.json", notes)
    log = run / "container.log"
    kit = deployment.kit
    facts = [
        ("engine", f"vLLM {kit.engine.vllm} on {kit.engine.device}"),
        ("image", about.image if about and about.image else ""),
        ("target", str(deployment.target)),
        ("drafter", str(deployment.drafter or "")),
        ("draft tokens", str(kit.speculative.num_speculative_tokens) if kit.speculative else ""),
        ("tensor parallel size", str(kit.parallel.tensor)),
        ("address", f"{kit.server.host}:{kit.server.port}"),
        ("started", _when(run.name)),
    ]
    return Contents(
        deployment.name, _now(), __version__, str(log), tuple((a, b) for a, b in facts if b), stages, diagnosis,
        tuple(quoted(log, diagnosis)), smoke, read.read(kept / "doctor.json", read.DoctorIn, notes), gpus, findings,
        tuple(rows(_plan(deployment, gpus, notes), stages.figures if stages else {})),
        tuple(read.read_resources(run / "events.jsonl")), tuple(notes),
    )  # fmt: skip


def of_log(path: Path) -> Contents:
    """A log by itself. Raises MissingError or UsageError when it cannot be read."""
    inputs.check(path)
    snapshot = of_file(path)
    diagnosis = read.DiagnosisIn.model_validate(to_json(diagnose_file(path)))
    end = snapshot.ready_at if snapshot.ready_at is not None else snapshot.last_at
    document = as_document(snapshot, end, ready=snapshot.ready_at is not None)
    stages = read.StagesIn.model_validate(document)
    facts = (("engine", f"vLLM {diagnosis.version}"),) if diagnosis.version else ()
    return Contents(
        path.name, _now(), __version__, str(path), facts, stages, diagnosis, tuple(quoted(path, diagnosis)), None, None,
        None, (), tuple(rows(None, stages.figures)), (), ("times are those of the log's own lines",),
    )  # fmt: skip


def quoted(log: Path, diagnosis: read.DiagnosisIn | None) -> list[Quoted]:
    """The lines that the diagnosis names, with those beside them; a gap where lines are left out."""
    if diagnosis is None:
        return []
    evidence = {quote.line for quote in diagnosis.evidence} | {link.line for link in diagnosis.chain}
    wanted = {n for line in evidence if line > 0 for n in range(line - AROUND, line + AROUND + 1)}
    if not wanted:
        return []
    found: list[Quoted] = []
    last, splitter = max(wanted), Splitter()
    try:
        for chunk in inputs.chunks(log):
            for number, text in splitter.feed(chunk):
                if number in wanted and len(found) < MOST_QUOTED:
                    if found and found[-1].number != number - 1:
                        found.append(Quoted(0, "", False))
                    found.append(Quoted(number, text.replace("\r", " ").strip()[:LONGEST], number in evidence))
            if splitter.number > last:
                break
    except OSError:
        return []
    return found


def _newest(runs: list[Path], name: str, kind: type[read.Document], notes: list[str]) -> read.Document | None:
    found = [value for run in runs if (value := read.read(run / name, kind, notes)) is not None]
    return found[-1] if found else None


def _gpus(path: Path, notes: list[str]) -> tuple[Gpus | None, tuple[Finding, ...]]:
    from kit.gpu.document import read_document
    from kit.gpu.judge import judge

    if not path.exists():
        return None, ()
    try:
        snapshot = read_document(path)
    except KitError as error:
        notes.append(error.message)
        return None, ()
    return (snapshot, tuple(judge(snapshot))) if snapshot.gpus else (None, ())


def _plan(deployment: Deployment, gpus: Gpus | None, notes: list[str]) -> Plan | None:
    """The memory plan, when the models are there to plan with."""
    from kit.model import judge_drafter, judge_target, read_folder
    from kit.model.use import use_of
    from kit.plan.from_deployment import card_of, setup_of
    from kit.plan.plan import make_plan

    try:
        card, _ = card_of(deployment, gpus)
        target = judge_target(read_folder(deployment.target))
        folder = deployment.drafter
        drafter = judge_drafter(read_folder(folder), target, use_of(deployment)) if folder else None
        return make_plan(target, drafter, setup_of(deployment, target, card))
    except (KitError, ValueError, OSError) as error:
        notes.append(f"no memory plan: {error}")
        return None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _when(name: str) -> str:
    try:
        return datetime.strptime(name[:16], "%Y%m%dT%H%M%SZ").strftime("%Y-%m-%d %H:%M:%S UTC")
    except ValueError:
        return name
