"""From a deployment to a ready service, or to a diagnosis.

Ready means: the process is alive, /health answers, the model is listed under its served name and
one real token came back. A start that dies ends the wait at once; it is not restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kit.config import Deployment
from kit.errors import UsageError
from kit.host.cdi import cdi_spec
from kit.render import container_spec
from kit.serve import container as box
from kit.serve.api import api_of
from kit.serve.port import need_free_port
from kit.serve.prepare import prepare
from kit.serve.runs import new_run
from kit.serve.wait import why_not_ready
from kit.serve.watched import Died, Started, watch
from kit.watch.session import View

if TYPE_CHECKING:
    from docker import DockerClient

    from kit.engine import Engine


def start(
    deployment: Deployment,
    engine: Engine,
    client: DockerClient,
    image: str,
    say: Callable[[str], None],
    preflight: Callable[[], None],
    views: Callable[[], Sequence[View]] = lambda: (),
) -> Started | Died:
    """Start the service and wait until it is ready or has failed.

    `preflight` raises when the machine, the model or the image cannot work; it is asked before anything is started.
    `views` are opened once there is something to show. Called under the deployment's lock. On Ctrl-C the container
    is stopped and the log kept.
    Raises MissingError for what is not there, KitError for an engine that refuses.
    """
    rendered = prepare(deployment, image)
    spec = container_spec(deployment, image)
    run_files = {Path(bind.source).name for bind in spec.binds}  # monitoring and the like need no new container
    wanted = box.digest(spec, {name: data for name, data in rendered.files.items() if name in run_files})
    api = api_of(deployment)
    old = box.find(client, spec.name)
    if old is not None:
        running = box.state(client, old.id).status == "running"
        if running and old.labels.get(box.SPEC_LABEL) == wanted and not why_not_ready(deployment, api):
            say("already up and ready, with these very settings")
            return Started(new_run(deployment), 0.0, True)
        say(f"replacing the {'running' if running else 'stopped'} container of an earlier start")
        box.stop(old, spec.stop_grace)
        box.remove(old)
    need_free_port(deployment)
    preflight()
    run = new_run(deployment)
    gpu_access = _gpu_access(spec.gpus, engine)
    try:
        created = box.launch(client, spec, wanted, gpu_access)
    except box.LimitsRefused:
        say("the engine may not raise limits here (locked memory, open files): starting with its own")
        created = box.launch(client, replace(spec, ulimits=()), wanted, gpu_access)
    return watch(deployment, client, created, image, run, views)


def _gpu_access(wanted: str | None, engine: Engine) -> str | None:
    """How this engine gives GPUs to a container. Raises UsageError when kit.yaml asks for what it lacks."""
    if wanted == "auto":  # an engine that understands CDI has no use of it without a spec
        by_cdi = engine.cdi and cdi_spec().files
        return "runtime" if "nvidia" in engine.runtimes and not by_cdi else "cdi"
    if wanted == "cdi" and not engine.cdi:
        raise UsageError(f"gpus.access is cdi, and Docker {engine.version} has no CDI", hint="set gpus.access: runtime")
    return wanted
