"""Who keeps a running service from answering: its processes and cards, looked at for some seconds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from kit.config import Deployment
from kit.render.container import container_name
from kit.serve import container as box
from kit.watch import verdict
from kit.watch.feed import of_file
from kit.watch.hang import standstill
from kit.watch.resources import EVERY_S, Resources

if TYPE_CHECKING:
    from docker import DockerClient

    from kit.logs import Diagnosis

LOOK_S = 8.0


def look(deployment: Deployment, client: DockerClient, diagnosis: Diagnosis, log: Path) -> Diagnosis:
    """The diagnosis of a service that left a request unanswered, with whoever holds it up.

    What the log names stays, as does everything when the container ended or nobody stands out.
    """
    found = box.find(client, container_name(deployment))
    now = box.state(client, str(found.id)) if found is not None else None
    if now is None or not now.alive or verdict.names_a_cause(diagnosis):
        return diagnosis
    resources = Resources(now.pid, gpus=deployment.kit.engine.device == "cuda")
    began = time.monotonic()
    try:
        while (at := time.monotonic() - began) < LOOK_S:
            resources.sample(at)
            time.sleep(EVERY_S)
        recent = resources.usage(LOOK_S)
    finally:
        resources.close()
    snapshot = of_file(log)
    judgement = standstill(snapshot, recent)
    return diagnosis if judgement is None else verdict.unanswered(diagnosis, judgement, snapshot)
