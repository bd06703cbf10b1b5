"""What a deployment is doing now, in about a second: container, readiness, acceptance since the start."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kit.config import Deployment
from kit.errors import EngineFailed, GateError, KitError, MissingError
from kit.logs.acceptance import Acceptance, Sample
from kit.logs.model import Line
from kit.render.container import container_name
from kit.serve import container as box
from kit.serve import readings
from kit.serve.api import Api, ApiError
from kit.serve.gauges import Gauges, gauges
from kit.serve.identity import recorded, unlike
from kit.smoke.counters import Counters, parse
from kit.watch.processes import ProcessSample, of_container

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LOG_LINES = 3000
FULL = 0.95
PATCHES = "kit.patches"  # label of an image that the kit built; kit.image.recipe writes it
_ERROR = re.compile(rb"\b(?:ERROR|CRITICAL) (?:\d{4}-)?\d\d-\d\d \d\d:\d\d")
EXIT = {
    "ready": 0,
    "not-ready": GateError.exit_code,
    "dead": EngineFailed.exit_code,
    "absent": MissingError.exit_code,
}


@dataclass(frozen=True)
class Log:
    """What the end of the log tells: lines at level ERROR or CRITICAL, the last of them, the newest acceptance."""

    errors: int = 0
    last_error: str | None = None
    acceptance: Sample | None = None
    judged: str | None = None


@dataclass(frozen=True)
class Status:
    """`verdict` is "ready", "not-ready", "dead" or "absent"; `why` says why it is not ready.

    `counted` and `gauges` are what the engine has counted since its start and its load now, None when they cannot
    be read. `trend` is what is wrong with the acceptance over hours. `as_locked` says whether the container's image
    is the one in the lock (None: there is no lock). `warnings` are in words for people.
    """

    verdict: str
    why: str | None
    container: box.State | None = None
    image: str | None = None
    image_id: str | None = None
    patches: tuple[str, ...] = ()
    as_locked: bool | None = None
    uptime_s: float | None = None
    served: tuple[str, ...] = ()
    version: str | None = None
    counted: Counters | None = None
    gauges: Gauges | None = None
    log: Log = Log()
    trend: str | None = None
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """kit.status/1."""
        speculation = None
        if self.counted and self.counted.speculating:
            speculation = {
                "num_drafts": self.counted.drafts,
                "num_draft_tokens": self.counted.draft_tokens,
                "num_accepted_tokens": self.counted.accepted_tokens,
                "acceptance_rate": round(self.counted.acceptance_rate, 6),
                "mean_acceptance_length": round(self.counted.mean_acceptance_length, 6),
                "now": self.log.acceptance and {
                    "mean_acceptance_length": self.log.acceptance.length,
                    "num_accepted_tokens": self.log.acceptance.accepted,
                    "num_draft_tokens": self.log.acceptance.drafted,
                },
            }  # fmt: skip
        box_ = self.container
        return {
            "schema": "kit.status/1",
            "verdict": self.verdict,
            "why": self.why,
            "container": box_ and {"status": box_.status, "health": box_.health, "restarts": box_.restarts},
            "image": self.image,
            "image_id": self.image_id,
            "patches": list(self.patches),
            "as_locked": self.as_locked,
            "uptime_s": self.uptime_s and round(self.uptime_s, 1),
            "served": list(self.served),
            "version": self.version,
            "requests": self.counted.requests if self.counted else None,
            "running": self.gauges.running if self.gauges else None,
            "waiting": self.gauges.waiting if self.gauges else None,
            "kv_use": self.gauges.kv_use if self.gauges else None,
            "errors": self.log.errors,
            "last_error": self.log.last_error,
            "speculation": speculation,
            "warnings": list(self.warnings),
        }


def status(deployment: Deployment, client: DockerClient, api: Api, before: Status | None = None) -> Status:
    """Look once; what cannot have changed since a look `before` (a moment ago: its log) is not asked again.

    Raises MissingError only when the Docker engine does not answer.
    """
    found = box.find(client, container_name(deployment))
    if found is None:
        return Status("absent", "there is no container")
    now = box.state(client, str(found.id))
    image = str(found.attrs["Config"]["Image"])
    labels = found.labels
    known = Status(
        "dead", None, now, image, str(found.attrs["Image"]), tuple(filter(None, labels.get(PATCHES, "").split(","))),
        _as_locked(deployment, found, client),
    )  # fmt: skip
    same = before if before and before.container and before.container.started_at == now.started_at else None
    log = same.log if same else None
    if log is None or now.status != "running":
        with box.docker_errors("reading the log"):
            log = read_log([found.logs(tail=LOG_LINES)])
    if now.status != "running":
        how = ", killed for memory" if now.oom_killed else ""
        return replace(known, why=f"the container {now.status}, status {now.exit_code}{how}", log=log)
    uptime = (datetime.now(UTC) - _time(now.started_at)).total_seconds()
    known = replace(known, uptime_s=uptime, log=log, version=same.version if same else None)
    held = stopped(of_container(now.pid))
    try:
        api.get("/health", timeout=2)
        served = tuple(api.models())
        why = held if deployment.kit.model.served_name in served else f"the API serves {', '.join(served)}"
    except ApiError as error:
        return replace(known, verdict="not-ready", why=held or str(error))
    counted, load = None, None
    with contextlib.suppress(ApiError, ValueError):
        text = api.metrics()
        counted, load = parse(text), gauges(text)
    version = known.version
    with contextlib.suppress(ApiError, ValueError, KeyError, TypeError):
        version = version or str(api.get("/version", timeout=2).json()["version"])
    trend = same.trend if same else None
    if counted and counted.speculating and same is None:
        kept = readings.note(deployment.state / "readings.jsonl", counted, now.started_at, time.time())
        trend = readings.falling(kept, now.started_at)
    known = replace(known, served=served, counted=counted, gauges=load, version=version, trend=trend)
    return replace(
        known,
        verdict="not-ready" if why else "ready",
        why=why,
        warnings=tuple(_warnings(deployment, known, trend or log.judged)),
    )


def stopped(processes: Sequence[ProcessSample] | None) -> str | None:
    """Why a service that looks well answers no request: one of its processes is stopped. None: none is."""
    held = [p for p in processes or () if p.state == "T"]
    names = ", ".join(f"{p.name} (pid {p.inner}, here {p.pid})" for p in held)
    again = " ".join(str(p.pid) for p in held)
    return f"stopped by a debugger or SIGSTOP: {names}; kill -CONT {again}" if held else None


def read_log(chunks: Iterable[bytes]) -> Log:
    """What the lines at the end of a log tell."""
    errors, last, acceptance = 0, None, Acceptance()
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for raw in whole:
            if b"SpecDecoding metrics" in raw:
                acceptance.add(Line(0, raw.decode(errors="replace")))
            elif _ERROR.search(raw):
                errors, last = errors + 1, raw
    judged = acceptance.judge()
    text = None if last is None else last.decode(errors="replace")[:300]
    return Log(errors, text, acceptance.last, judged[1] if judged else None)


def _warnings(deployment: Deployment, now: Status, acceptance: str | None) -> Iterator[str]:
    try:
        if now.as_locked is not True and (record := recorded(deployment)) and now.as_locked is False:
            yield f"the image is not the one in {record.file.name}"
    except KitError as error:
        yield f"whether the image is the qualified one cannot be told: {error.message}"
    if now.version and not now.version.startswith(deployment.kit.engine.vllm):
        yield f"vLLM {now.version} runs, kit.yaml says {deployment.kit.engine.vllm}"
    if acceptance:
        yield f"acceptance: {acceptance}"
    if now.gauges and now.gauges.kv_use is not None and now.gauges.kv_use > FULL:
        yield f"the KV cache is {now.gauges.kv_use:.0%} full"
    if now.container and now.container.restarts:
        yield f"it has crashed and was restarted {now.container.restarts} times"


def _as_locked(deployment: Deployment, container: Container, client: DockerClient) -> bool | None:
    """Whether the container's image is the one that was recorded: its inputs, and where known its layers."""
    from docker.errors import NotFound

    try:
        record = recorded(deployment)
    except KitError:
        return None  # the warnings say why
    if record is None or not (record.input or record.layers):
        return None
    attrs: dict[str, Any] = {"Config": {"Labels": container.labels}}
    with box.docker_errors("looking at the container's image"), contextlib.suppress(NotFound):
        attrs = client.images.get(str(container.attrs["Image"])).attrs
        return not unlike(record, attrs)
    return not unlike(replace(record, config=None, layers=()), attrs)  # the image was removed meanwhile


def _time(text: str) -> datetime:
    """Docker's time (RFC 3339 with nanoseconds)."""
    return datetime.fromisoformat(text[:26].rstrip("Z") + "+00:00")
