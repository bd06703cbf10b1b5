"""Stopping: needs no lock, so that it also ends a start that is under way."""

from __future__ import annotations

import contextlib

from kit.cli import out
from kit.config import Deployment
from kit.render.container import container_name
from kit.serve import container as box


def down(deployment: Deployment) -> bool:
    """Stop and remove the deployment's container; false when there was none. Caches and runs stay."""
    from kit.engine import connect

    with contextlib.closing(connect(out.say).client()) as client:
        found = box.find(client, container_name(deployment))
        if found is None:
            out.say(f"{deployment.name}: nothing is running")
            return False
        box.stop(found, deployment.kit.limits.stop_grace)
        box.remove(found)
        out.say(f"{deployment.name}: stopped and removed")
        return True
