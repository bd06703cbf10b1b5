"""`kit up` and `kit smoke` as a whole: what is printed, recorded and returned for each ending."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from functools import partial
from json import dumps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from kit import files
from kit.cli import out
from kit.config import Deployment
from kit.errors import EngineFailed, GateError
from kit.render.container import container_name
from kit.serve import container as box
from kit.serve import identity
from kit.serve.api import api_of
from kit.serve.image import image_of
from kit.serve.runs import new_run, record
from kit.serve.start import start
from kit.serve.watched import Died

if TYPE_CHECKING:
    from docker import DockerClient

    from kit.logs import Diagnosis
    from kit.watch.session import View

Emit = Callable[[dict[str, Any]], None]


def up(deployment: Deployment, *, smoke: bool, json: bool, events: bool = False, doctor: bool = True) -> int:
    """Start (or find running) and check; returns the exit code: 0, 3 (a gate failed) or 4 (the engine failed).

    With `events` the start is told as JSON lines on stdout; the last line is the result.
    """
    from kit.engine import connect

    emit = _result_line if events else out.as_json if json else None
    with files.locked(deployment.state / "lock", what=f"deployment {deployment.name}"):
        engine = connect(out.say)
        with contextlib.closing(engine.client()) as client:
            image = image_of(deployment, client)
            out.say(f"starting {deployment.name}: vLLM {deployment.kit.engine.vllm}, image {image}")
            identity.check(deployment, client, image, Path(engine.data_root), out.say)
            preflight = partial(_preflight, deployment) if doctor else lambda: None
            began = start(deployment, engine, client, image, out.say, preflight, lambda: [_view(deployment, events)])
            if isinstance(began, Died):
                return _died(began, emit)
            out.say("ready" if began.already else f"ready after {began.seconds:.1f} s")
            code = _smoke(deployment, client, began.run, emit, began.seconds) if smoke else 0
            if code == 0:
                out.say("try:   " + _request(deployment))
            if smoke:
                return code
    if emit:
        emit({"schema": "kit.up/1", "verdict": "pass", "ready_s": round(began.seconds, 2), "smoke": None})
    return 0


def _request(deployment: Deployment) -> str:
    """A curl line that asks the service something; the key is read from its file by the shell."""
    kit = deployment.kit
    body = {"model": kit.model.served_name, "prompt": "t5" if kit.model.reference else "Hello", "max_tokens": 20}
    key_file = kit.server.api_key_file
    key = f' -H "Authorization: Bearer $(cat {quote(str(deployment.path(key_file)))})"' if key_file else ""
    data = quote(dumps(body, ensure_ascii=False))
    return f"curl -s {api_of(deployment).base}/v1/completions{key} -H 'Content-Type: application/json' -d {data}"


def _preflight(deployment: Deployment) -> None:
    from kit.checks.doctor import preflight

    if preflight(deployment, out.say):
        out.say("doctor: nothing stands in the way")


def _view(deployment: Deployment, events: bool) -> View:
    """How a start is shown: JSON lines on request, a live screen in a terminal, plain lines elsewhere."""
    from kit.watch.events import Events
    from kit.watch.plain import Plain

    if events:
        return Events(lambda line: print(line, flush=True))
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not out.quiet:
        from kit.watch.live import Live

        return Live(out.console(stderr=True), deployment.name)
    return Plain(out.say)


def _result_line(result: dict[str, Any]) -> None:
    from kit.watch.events import SCHEMA

    print(dumps({"schema": SCHEMA, "event": "result", "result": result}), flush=True)


def smoke_running(deployment: Deployment, *, json: bool) -> int:
    """`kit smoke`: test what runs; returns 0 or 3. Raises EngineFailed when it does not answer."""
    from kit.engine import connect

    with contextlib.closing(connect(out.say).client()) as client:
        return _smoke(deployment, client, new_run(deployment), out.as_json if json else None, None)


def _died(died: Died, emit: Emit | None) -> int:
    from kit.logs import render_text

    out.say(f"after {died.seconds:.1f} s: {died.reason}")
    if emit:
        emit(_failed(died.reason, died.diagnosis))
    else:
        out.data(
            render_text(died.diagnosis, path=str(died.log), colour=out.colour(sys.stdout), width=out.width(sys.stdout)),
            coloured=True,
        )
    out.error(
        EngineFailed("the engine failed to start", hint=f"mend the cause, then kit up; the whole log: {died.log}")
    )
    return EngineFailed.exit_code


def _failed(reason: str, diagnosis: Diagnosis | None) -> dict[str, Any]:
    """kit.up/1 of a service that ended before it could be judged."""
    from kit.logs import to_json

    return {
        "schema": "kit.up/1",
        "verdict": "fail",
        "reason": reason,
        "diagnosis": diagnosis and to_json(diagnosis),
    }


def _smoke(deployment: Deployment, client: DockerClient, run: Path, emit: Emit | None, ready_s: float | None) -> int:
    """Run the smoke test and print it; when it fails, print also what the engine's log says."""
    from kit.smoke import smoke
    from kit.smoke.show import show

    try:
        result = smoke(deployment, api_of(deployment))
    except EngineFailed as error:
        diagnosis = _diagnose(deployment, client, run, unanswered=True)
        _print_diagnosis(diagnosis, emit)
        if emit:
            emit(_failed(error.message, diagnosis))
        raise error
    record(run, "smoke.json", result.to_json())
    report: dict[str, Any] = result.to_json()
    if ready_s is not None:
        report = {"schema": "kit.up/1", "verdict": result.verdict, "ready_s": round(ready_s, 2), "smoke": report}
    if result.verdict == "pass":
        emit(report) if emit else show(result, out.console())
        return 0
    diagnosis = _diagnose(deployment, client, run, unanswered=bool(result.errors))
    if emit:
        from kit.logs import to_json

        emit(report | {"diagnosis": diagnosis and to_json(diagnosis)})
    else:
        show(result, out.console())
        _print_diagnosis(diagnosis, emit)
    if diagnosis is not None and diagnosis.verdict == "failed":
        out.error(EngineFailed("the engine failed during the smoke test", hint="mend the cause, then kit up"))
        return EngineFailed.exit_code
    failed = "; ".join(f"{g.name}: want {g.want}, found {g.found}" for g in result.gates if g.status == "fail")
    out.error(
        GateError(
            f"the smoke test failed: {failed}",
            hint="kit doctor --select model,drafter finds what is wrong in the files; kit down stops the service",
        )
    )
    return GateError.exit_code


def _diagnose(deployment: Deployment, client: DockerClient, run: Path, *, unanswered: bool) -> Diagnosis | None:
    """Save the container's whole log beside the result and diagnose it; None when there is none.

    After a request that was not answered, whoever holds the service up is looked for too.
    """
    from kit.logs import diagnose_file, to_json
    from kit.serve.stuck import look

    found = box.find(client, container_name(deployment))
    if found is None:
        return None
    log = run / "container.log"
    with files.replacing(log) as handle, box.docker_errors("reading the log"):
        for chunk in found.logs(stream=True, follow=False):
            handle.write(chunk)
    diagnosis = diagnose_file(log)
    if unanswered:
        diagnosis = look(deployment, client, diagnosis, log)
    record(run, "diagnosis.json", to_json(diagnosis))
    out.say(f"the engine's log: {log}")
    return diagnosis


def _print_diagnosis(diagnosis: Diagnosis | None, emit: Emit | None) -> None:
    from kit.logs import render_text

    if diagnosis is not None and not emit:
        out.data(render_text(diagnosis, colour=out.colour(sys.stdout), width=out.width(sys.stdout)), coloured=True)
