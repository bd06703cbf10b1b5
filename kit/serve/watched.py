"""A started container, watched until it is ready or has failed; the run folder gets log, events and stages."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kit.config import Deployment
from kit.serve import container as box
from kit.serve.api import api_of
from kit.serve.follow import LogFollower
from kit.serve.runs import record
from kit.serve.wait import Ending, wait_until_ready
from kit.watch import history, stacks, verdict
from kit.watch.events import Events
from kit.watch.resources import Resources
from kit.watch.session import Session, View

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from kit.logs import Diagnosis


@dataclass(frozen=True)
class Started:
    """A service that is ready: the run's folder, seconds until ready, and whether it ran already."""

    run: Path
    seconds: float
    already: bool


@dataclass(frozen=True)
class Died:
    """A start that failed: why the wait ended, the diagnosis, the log, seconds until then."""

    reason: str
    diagnosis: Diagnosis
    log: Path
    seconds: float


def watch(
    deployment: Deployment,
    client: DockerClient,
    created: Container,
    image: str,
    run: Path,
    views: Callable[[], Sequence[View]],
) -> Started | Died:
    """Watch the started container until it is ready or has failed; the run folder gets log, events and stages."""
    began = time.monotonic()

    def now() -> float:
        return time.monotonic() - began

    limits = deployment.kit.limits
    with (run / "events.jsonl").open("w") as kept:
        events = Events(lambda line: print(line, file=kept, flush=True))
        good = False
        session = Session(
            [events, *views()],
            Resources(box.state(client, str(created.id)).pid, gpus=deployment.kit.engine.device == "cuda"),
            history.former(deployment.runs, but=run),
            stall_timeout=limits.stall_timeout,
            stage_timeouts={str(name): seconds for name, seconds in limits.stage_timeouts.items()},
        )
        follower = LogFollower(created, run / "container.log", lambda chunk: session.take(chunk, now()))
        try:
            ending = wait_until_ready(deployment, client, str(created.id), api_of(deployment), follower, session, now)
            seconds = now()
            if ending is None:
                session.tick(seconds)
                events.say(seconds, "ready", seconds=round(seconds, 2))
                box.allow_restarts(created, limits.restarts)
                snapshot = session.snapshot()
                record(run, "run.json", {"schema": "kit.run/1", "image": image, "ready_s": round(seconds, 2)})
                history.write(run, snapshot, seconds, ready=True)
                good = True
                return Started(run, seconds, False)
            first = follower.fatal_since
            first_at = None if first is None else round(first - began, 3)
            events.say(seconds, "failed", kind=ending.kind, reason=ending.reason, first_fatal_at=first_at)
            return _died(client, created, follower, session, run, ending, seconds)
        except BaseException:
            box.stop(created, 3)
            follower.end()
            raise
        finally:
            session.close(good)


def _died(
    client: DockerClient,
    created: Container,
    follower: LogFollower,
    session: Session,
    run: Path,
    ending: Ending,
    seconds: float,
) -> Died:
    """Stop what is left, keep what it tells, and say why it died."""
    from kit.logs import collect, to_json
    from kit.logs.host import Host
    from kit.logs.model import Owner

    ended_at = time.time()
    gone, oom_kills = session.ended(seconds)
    given_up = ending.kind in ("hung", "half-dead", "timeout")
    if given_up:
        _stacks(created, follower, run, ending)
    box.stop(created, 1 if ending.kind == "fatal" else 3)  # one that failed has nothing left to save
    follower.end()
    end = box.state(client, str(created.id))
    exit_code = end.exit_code if ending.kind == "exited" else None
    host = Host(
        kernel=collect.kernel_lines(),
        ended=ended_at,
        oom_kills=oom_kills,
        gone=tuple(Owner(p.role, p.rank, p.pid) for p in gone),
    )
    diagnosis = follower.finish(exit_code, end.oom_killed, host)
    snapshot = session.snapshot()
    if ending.kind == "half-dead":
        diagnosis = verdict.half_dead(diagnosis, ending.frame.missing, snapshot, oom_kills)
    elif given_up:
        diagnosis = verdict.hung(diagnosis, ending.frame.judgement, snapshot, ending.reason)
    if given_up:
        diagnosis = replace(
            diagnosis, notes=(*diagnosis.notes, f"where each process stood: {run}/processes.txt, stacks.txt")
        )
    record(run, "diagnosis.json", to_json(diagnosis))
    history.write(run, snapshot, seconds, ready=False)
    return Died(ending.reason, diagnosis, follower.path, seconds)


def _stacks(created: Container, follower: LogFollower, run: Path, ending: Ending) -> None:
    """Keep where every process stands, in the run folder: from this machine, then from inside."""
    sample = ending.frame.sample
    if sample and sample.processes:
        (run / "processes.txt").write_text(stacks.from_outside(sample.processes))
    follower.divert(run / "stacks.txt")
    stacks.from_inside(created, ending.frame.snapshot.processes, lambda: follower.bytes)
