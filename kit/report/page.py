"""The report as one HTML page: no script, nothing from outside, everything escaped; pure.

The page forbids by its own Content-Security-Policy whatever it does not need: scripts, images, fonts,
connections, forms. Styles are allowed by the hash of the one style sheet. All text passes through Jinja's
autoescape; control characters are shown as \\xNN before that.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from kit.cli.out import clean
from kit.report.charts import curves, positions
from kit.report.collect import Contents
from kit.report.inputs import RootIn, StagesIn
from kit.report.timeline import WIDTH, timeline
from kit.watch.estimate import durations
from kit.watch.lines import figure, title
from kit.watch.model import Span
from kit.watch.words import duration, gib

HOME = Path(__file__).parent
_ROLES = {"api_server": "API server", "engine_core": "engine core", "worker": "worker", "container": "container"}
_TONES = {"pass": "good", "ok": "good", "fail": "bad", "warn": "warn"}


@dataclass(frozen=True)
class Verdict:
    """The word in the badge, its tone (good, warn, bad), and the sentence beside it."""

    word: str
    tone: str
    sentence: str


def page(contents: Contents) -> str:
    """The whole page."""
    style, digest = _style()
    return _template().render(
        page=contents,
        verdict=verdict(contents),
        style=Markup(style),
        style_hash=f"sha256-{digest}",
        width=WIDTH,
        timeline=timeline(contents.stages, contents.diagnosis.root_cause if contents.diagnosis else None)
        if contents.stages
        else None,
        durations=_durations(contents.stages) if contents.stages else [],
        curves=curves(contents.samples),
        positions=positions(contents.smoke) if contents.smoke else [],
        faults=[c for c in contents.doctor.checks if c.status in ("fail", "warn")] if contents.doctor else [],
        notes=[*contents.notes, *(contents.diagnosis.notes if contents.diagnosis else ())],
        who=_who,
        role=lambda name: _ROLES.get(name, name),
        percent=lambda value: f"{value:.0%}",
        percent1=lambda value: f"{value:.1%}",
        mib=lambda value: "-" if value is None else gib(value),
        pcie=_pcie,
        tone=lambda status: _TONES.get(status, ""),
    )


@functools.cache
def _style() -> tuple[str, str]:
    """The style sheet and its hash as a policy names it."""
    style = (HOME / "style.css").read_text()
    return style, base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


@functools.cache
def _template() -> jinja2.Template:
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HOME),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    return env.get_template("page.html.j2")


def verdict(contents: Contents) -> Verdict:
    """What the page says first."""
    found, stages, smoke = contents.diagnosis, contents.stages, contents.smoke
    if found is not None and found.verdict == "failed":
        after = f" after {duration(stages.ended_s)}" if stages and stages.ended_s and stages.ready_s is None else ""
        where = f" in stage {title(stages.stage)}" if stages and after and stages.stage else ""
        return Verdict("failed", "bad", f"The engine failed{after}{where}.")
    if smoke is not None and smoke.verdict != "pass":
        failed = ", ".join(gate.name for gate in smoke.gates if gate.status == "fail")
        return Verdict("smoke test failed", "bad", f"The service came up, but failed the smoke test: {failed}.")
    if found is not None and found.verdict == "degraded":
        return Verdict("degraded", "warn", "The service runs, and something is wrong with it.")
    if stages is not None and stages.ready_s is not None:
        passed = " and passed the smoke test" if smoke else ""
        return Verdict("ready", "good", f"The service was ready after {duration(stages.ready_s)}{passed}.")
    if stages is not None and stages.stage:
        return Verdict("not ready", "warn", f"The start stands in stage {title(stages.stage)}.")
    return Verdict("no failure", "good", "Nothing in this log says that the server failed.")


def _durations(stages: StagesIn) -> list[tuple[str, str, str, str]]:
    """(stage, title, duration, figures) in the order of a start."""
    end = stages.ready_s if stages.ready_s is not None else stages.ended_s
    spent = durations([Span(s.stage, s.start, s.end) for s in stages.spans], end)
    return [
        (name, title(name), duration(seconds), ", ".join(_figures(name, stages)))
        for name, seconds in spent.items()
        if name not in ("serving", "shutdown") and name in _KNOWN
    ]


_KNOWN = {
    "boot": (), "config": ("version", "architecture"), "processes": (), "nccl": ("nccl",),
    "load": ("checkpoint_gib", "weights_s"), "draft-load": ("drafter_checkpoint_gib", "drafter_weights_s"),
    "profile": ("model_gib",), "compile": ("compile_s",), "kv-cache": ("kv_gib", "kv_tokens", "concurrency"),
    "warmup": (), "capture": ("graphs_gib",), "api": (),
}  # fmt: skip


def _figures(stage: str, stages: StagesIn) -> list[str]:
    told = [figure(name, stages.figures[name]) for name in _KNOWN[stage] if name in stages.figures]
    return [text for text in told if text]


def _who(root: RootIn) -> str:
    name = _ROLES.get(root.process, "no single process")
    rank = f" rank {root.rank}" if root.rank is not None else ""
    return name + rank + (f" (pid {root.pid})" if root.pid is not None else "")


def _pcie(gpu: Any) -> str:
    link = gpu.pcie
    if link.gen_max is None and link.gen_card is None:
        return "-"
    width = f" x{link.width_now or link.width_max}" if link.width_now or link.width_max else ""
    return f"Gen{link.gen_max or link.gen_card}{width}"


def _finalize(value: Any) -> Any:
    """Text from outside may hold control characters: they are shown, not sent."""
    return clean(value, "\t\n") if isinstance(value, str) and not isinstance(value, Markup) else value
