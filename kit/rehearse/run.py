"""`kit rehearse`: build the twin, start it, put it to the test, stop it, say how it went."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit import files
from kit.config import Deployment
from kit.parse import json_of
from kit.reference.store import target_name
from kit.rehearse.examine import Examined, examine
from kit.rehearse.prove import cpu_recipe, free_port, watcher_in, written
from kit.rehearse.twin import cpu_twin, form_for, gpu_twin
from kit.serve.api import api_of
from kit.serve.down import down
from kit.serve.start import start
from kit.serve.watched import Died, Started
from kit.watch.plain import Plain

Say = Callable[[str], None]


@dataclass(frozen=True)
class Rehearsed:
    """The image, what was seen of it, and the seconds until it was ready or dead."""

    image: str
    seen: Examined | Died
    seconds: float

    @property
    def good(self) -> bool:
        return isinstance(self.seen, Examined) and self.seen.good


def prepare(deployment: Deployment, form: str | None, *, tensor: int = 1, gpu: bool = False) -> Deployment:
    """Write the twin of a deployment into its state folder. Raises UsageError when no form is like its target."""
    chosen = form or form_for(deployment.kit, model_type(deployment.target))
    target_name(chosen)  # refuses what is no form
    folder = deployment.state / "rehearsal"
    if gpu:
        return written(folder, gpu_twin(deployment.kit, chosen, port=free_port()))
    recipe = cpu_recipe(deployment.kit.engine.vllm)
    return written(
        folder,
        cpu_twin(deployment.kit, chosen, recipe, port=free_port(), watcher=watcher_in(folder), tensor=tensor),
    )


def rehearse(small: Deployment, say: Say, *, keep: bool = False) -> Rehearsed:
    """Build the twin's image if need be, serve, examine and stop.

    Raises EngineFailed when it answers no more. `keep` leaves it running for a look.
    """
    from kit.engine import connect
    from kit.home import kit_home
    from kit.image.build import ensure
    from kit.image.load import for_deployment
    from kit.store.store import Store

    with files.locked(small.state / "lock", what=f"deployment {small.name}"):
        engine = connect(say)
        image = ensure(for_deployment(small), engine, Store(kit_home() / "store"), say).reference
        say(
            f"rehearsing with vLLM {small.kit.engine.vllm}, a target of form {small.kit.model.reference}, image {image}"
        )
        with contextlib.closing(engine.client()) as client:
            began: Started | Died | None = None
            try:
                began = start(small, engine, client, image, say, lambda: None, lambda: [Plain(say)])
                if isinstance(began, Died):
                    return Rehearsed(image, began, began.seconds)
                say(f"ready after {began.seconds:.1f} s")
                return Rehearsed(image, examine(small, api_of(small), say), began.seconds)
            finally:
                if began is not None and not keep:
                    down(small)


def model_type(target: Path) -> str | None:
    """`model_type` at the top of a model's config.json; None where it cannot be read."""
    try:
        value = json_of((target / "config.json").read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError):
        return None
    return value if isinstance(value, str) else None


def report(small: Deployment, patches: tuple[str, ...], done: Rehearsed) -> dict[str, Any]:
    """`kit rehearse --json`."""
    from kit.logs import to_json

    seen = done.seen
    return {
        "schema": "kit.rehearsal/1",
        "verdict": "pass" if done.good else "fail",
        "vllm": small.kit.engine.vllm,
        "image": done.image,
        "device": small.kit.engine.device,
        "form": small.kit.model.reference,
        "tensor_parallel": small.kit.parallel.tensor,
        "patches": list(patches),
        "seconds": round(done.seconds, 1),
        "smoke": seen.smoke.to_json() if isinstance(seen, Examined) else None,
        "states": seen.states.to_json() if isinstance(seen, Examined) and seen.states else None,
        "diagnosis": to_json(seen.diagnosis) if isinstance(seen, Died) else None,
    }
