"""Whether a start that is silent is slow or stuck, and what the signs say; pure."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kit.gpu.findings import numbers
from kit.watch.model import Process, Snapshot
from kit.watch.patterns import Stage, patterns
from kit.watch.resources import Usage
from kit.watch.words import duration, rate

HOME = Path(__file__).with_name("signs.toml")
LOADS = ("load", "draft-load")
COMPILES = ("compile", "warmup")
COLLECTIVE = ("nccl", "load", "draft-load", "profile", "warmup", "capture")
SIGN_AFTER_S = 60.0  # how long a sign must have held before it counts
READING = 1 << 20  # bytes a second that show that a disk is being read
GROWING_MIB = 64
SPINNING, RESTING = 95, 5  # use of a card, per cent


@dataclass(frozen=True, slots=True)
class Sign:
    """A kind of standstill: its text for people, the diagnosis category it suggests, what to try."""

    id: str
    category: str
    text: str
    remedy: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """`verdict` is "ok", "slow" (moving, below what is normal), "suspect" (signs of a standstill) or "hung" (its
    limit is over); `sign` says why, `quiet_s` how long nothing moved and `limit_s` how long that may last. `who`: the
    process that keeps the others waiting, where one is known to."""

    verdict: str
    sign: Sign | None
    text: str
    quiet_s: float
    limit_s: float
    who: Process | None = None


@functools.cache
def signs() -> dict[str, Sign]:
    """signs.toml by id."""
    items = tomllib.loads(HOME.read_text())["sign"]
    return {i["id"]: Sign(i["id"], i["category"], i["text"], tuple(i["try"])) for i in items}


def limit(stage: Stage, stall_timeout: float, stage_timeouts: Mapping[str, int]) -> float:
    """Seconds of silence that a stage may have: what kit.yaml says for it, else its own default, else the general
    limit (longer where compilers work silently)."""
    if stage.id in stage_timeouts:
        return float(stage_timeouts[stage.id])
    general = stall_timeout * stage.factor
    return min(general, stage.stall) if stage.stall is not None else general


def judge(
    now: Snapshot, at: float, recent: Usage | None, stall_timeout: float, stage_timeouts: Mapping[str, int]
) -> Judgement:
    """Judge a start at `at` (seconds since the start). `recent`: what was used over the last minute or so."""
    stage = patterns().stages[now.stage]
    allowed = limit(stage, stall_timeout, stage_timeouts)
    quiet = at - max(now.progress_at, now.last_at)
    if now.broadcasts:
        quiet = at - now.progress_at
    if quiet < min(SIGN_AFTER_S, allowed):
        return Judgement("ok", None, "", quiet, allowed)
    moving = _moving(now, recent)
    if moving is not None:
        return Judgement("slow", signs()["slow-disk"], moving, quiet, allowed)
    sign, text, who = _sign(now, recent, quiet)
    telling = sign.id != "silent" or quiet > allowed / 3
    verdict = "hung" if quiet >= allowed else "suspect" if telling else "ok"
    return Judgement(verdict, sign, text, quiet, allowed, who)


def _moving(now: Snapshot, recent: Usage | None) -> str | None:
    """The text that says what moves although nothing is printed; None when nothing does."""
    if now.stage not in LOADS or recent is None:
        return None
    if recent.read_rate is not None and recent.read_rate >= READING:
        return signs()["slow-disk"].text.format(rate=rate(recent.read_rate))
    if recent.gpu_growth_mib is not None and recent.gpu_growth_mib >= GROWING_MIB:
        return f"slow, not stuck: GPU memory grew by {recent.gpu_growth_mib} MiB in {duration(recent.seconds)}"
    return None


def standstill(now: Snapshot, recent: Usage | None) -> Judgement | None:
    """Who keeps a service from answering, judged by the machine alone over `recent`; None: nobody stands out."""
    found = _accused(now, recent) if recent else None
    return Judgement("hung", *found[:2], 0.0, 0.0, found[2]) if found and found[2] else None


def _sign(now: Snapshot, recent: Usage | None, quiet: float) -> tuple[Sign, str, Process | None]:
    enough = recent is not None and recent.seconds >= SIGN_AFTER_S * 0.8
    spins = recent and enough and now.stage in COLLECTIVE and (recent.gpu_busy or 0) >= SPINNING
    if recent and enough and (accused := _accused(now, recent)):
        return accused
    behind = _behind(now)
    name, who = "silent", None
    if spins and recent and not recent.gpu_growth_mib:
        name = "gpu-spin"
    elif now.stage == "nccl":
        name = "nccl-wait"
    elif behind:
        name, who = "rank-behind", behind[0]
    elif now.broadcasts >= 2 and now.stage not in COMPILES:
        name = "broadcast"
    elif recent and enough and _asleep(recent):
        name = "asleep"
    sign = signs()[name]
    stage = patterns().stages[now.stage].title
    text = sign.text.format(stage=stage, quiet=duration(quiet), rate="", ranks=", ".join(map(_name, behind)))
    return sign, text, who


def _accused(now: Snapshot, recent: Usage) -> tuple[Sign, str, Process | None] | None:
    """The process that does not run, or does nothing while the cards of the others wait at full use."""
    pids = {p.inner for p in recent.held}
    if held := [p for p in now.processes if p.pid in pids]:
        sign = signs()["held"]
        return sign, sign.text.format(ranks=", ".join(map(_name, held))), held[0]
    waiting = [card for card in recent.cards if card.least >= SPINNING]
    resting = [card for card in recent.cards if card.most <= RESTING]
    whole = len(waiting) + len(resting) == len(recent.cards)
    if not (waiting and resting and whole) or recent.gpu_growth_mib:
        return None
    sign = signs()["rank-away"]
    away = [p for p in now.processes if any(p.pid in card.pids for card in resting)]
    ranks = ", ".join(map(_name, away)) or "whoever computes there"
    cards, rest = (numbers([card.index for card in group]) for group in (waiting, resting))
    return sign, sign.text.format(ranks=ranks, cards=cards, rest=rest), away[0] if away else None


def _name(process: Process) -> str:
    where = f"rank {process.rank}" if process.rank is not None else process.role.replace("_", " ")
    return f"{where} (pid {process.pid})"


def _asleep(recent: Usage) -> bool:
    return (
        recent.cpu_rate is not None
        and recent.cpu_rate < 0.02
        and (recent.read_rate or 0) < READING
        and not recent.gpu_busy
    )


def _behind(now: Snapshot) -> list[Process]:
    """The workers that are in an earlier stage than most others; empty when that says nothing: later than the weights
    only rank 0 says how it goes on."""
    order = {name: stage.order for name, stage in patterns().stages.items()}
    workers = [p for p in now.processes if p.role == "worker"]
    if len(workers) < 2 or now.stage not in ("nccl", "load"):
        return []
    late = [p for p in workers if order[p.stage] < order[now.stage]]
    return late if len(late) * 2 <= len(workers) else []
