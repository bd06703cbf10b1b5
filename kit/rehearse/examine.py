"""A twin that is ready, put to the test: exact counters, the known text, auxiliary states as hooks see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kit.config import Deployment
from kit.errors import EngineFailed
from kit.rehearse.twin import WATCH
from kit.serve.api import Api, ApiError
from kit.smoke import SmokeResult, smoke


@dataclass(frozen=True)
class States:
    """What the hooks counted in every worker: layers watched, states compared, and found equal bit for bit."""

    layers: tuple[int, ...]
    compared: int
    equal: int

    @property
    def good(self) -> bool:
        return self.compared > 0 and self.compared == self.equal

    def to_json(self) -> dict[str, Any]:
        return {"layers": list(self.layers), "compared": self.compared, "equal": self.equal}


@dataclass(frozen=True)
class Examined:
    """The smoke test's result, and the states where they were watched."""

    smoke: SmokeResult
    states: States | None

    @property
    def good(self) -> bool:
        return self.smoke.verdict == "pass" and (self.states is None or self.states.good)


def examine(deployment: Deployment, api: Api, say: Callable[[str], None]) -> Examined:
    """Run the smoke test, watched where the twin has the watcher. Raises EngineFailed when nothing answers."""
    watched = WATCH[1] in deployment.kit.engine.args
    layers = _workers(api, "kit_watch_states") if watched else []
    result = smoke(deployment, api)
    say(f"{result.counted.accepted_tokens} of {result.counted.draft_tokens} draft tokens accepted")
    if not watched:
        return Examined(result, None)
    counts = _workers(api, "kit_states")
    states = States(tuple(layers[0]), sum(each["compared"] for each in counts), sum(each["equal"] for each in counts))
    say(f"{states.equal} of {states.compared} auxiliary states as hooks see them, layers {list(states.layers)}")
    return Examined(result, states)


def _workers(api: Api, method: str) -> list[Any]:
    """Call a method of states.py in every worker; their answers."""
    try:
        return list(api.post("/collective_rpc", {"method": method})["results"])
    except (ApiError, KeyError, TypeError) as error:
        raise EngineFailed(f"the watcher in the workers does not answer: {error}", hint="kit diagnose") from None
