"""Settings that fit one box, found by `kit doctor`, and taken into the rendered files once accepted.

Accepted advice lies in `.kit/NAME/advice.json`; `kit render` puts its variables below those of kit.yaml, which win.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kit import files
from kit.config import Deployment
from kit.errors import UsageError
from kit.parse import json_of

SCHEMA = "kit.advice/1"


@dataclass(frozen=True)
class Advice:
    """`env`: variables for the engine, `why`: the reason for each; `gpus`: the cards to use, by rank.

    `cpus`: the CPUs for the whole engine, when its cards all hang on one of several NUMA nodes; `rank_cpus`: those
    nearest to each rank's card. `notes`: what only a person can do. `box` is the same for the same cards and links.
    """

    env: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    gpus: tuple[int, ...] = ()
    cpus: str | None = None
    rank_cpus: tuple[str | None, ...] = ()
    notes: tuple[str, ...] = ()
    box: str = ""


def path(deployment: Deployment) -> Path:
    """Where the accepted advice of a deployment lies."""
    return deployment.state / "advice.json"


def accept(deployment: Deployment, advice: Advice) -> None:
    """Keep `advice` for rendering."""
    files.write(path(deployment), json.dumps({"schema": SCHEMA, **asdict(advice)}, indent=2) + "\n")


def forget(deployment: Deployment) -> bool:
    """Remove accepted advice; whether there was any."""
    there = path(deployment).exists()
    path(deployment).unlink(missing_ok=True)
    return there


def accepted(deployment: Deployment) -> Advice | None:
    """The advice accepted for a deployment, or None. Raises UsageError when its file is damaged."""
    from pydantic import TypeAdapter  # pydantic's own errors are ValueErrors

    try:
        found = json_of(path(deployment).read_text())
        if not isinstance(found, dict) or found.pop("schema", None) != SCHEMA:
            raise ValueError(f"it is no {SCHEMA}")
        return TypeAdapter(Advice).validate_python(found)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UsageError(
            f"{path(deployment)} is no accepted advice: {str(error).splitlines()[0]}",
            hint="kit doctor --accept writes it anew",
        ) from None
