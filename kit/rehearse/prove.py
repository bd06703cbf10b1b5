"""`kit patches prove`: every patch seen red without it and green with it, on a real engine."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from kit import files
from kit.config import Deployment, Kit, load
from kit.errors import EngineFailed, UsageError
from kit.image.recipes import read_image
from kit.logs import diagnose_file
from kit.patches import catalog
from kit.patches.inside.apply import patched
from kit.patches.inside.common import Tree, reader
from kit.patches.plan import PatchPlan, plan
from kit.patches.stage import metadata
from kit.rehearse import states
from kit.rehearse.examine import examine
from kit.rehearse.process import installed_site, overlay, served
from kit.rehearse.scenarios import Scenario, Seen, files_of, red_and_green, shows
from kit.rehearse.twin import cpu_twin, recipe_for
from kit.serve.api import api_of


class Stage(Protocol):
    """Starts an engine with these files and tells what was seen; the container and the process form of it."""

    def __call__(self, scenario: Scenario, texts: dict[str, str]) -> Seen: ...


@dataclass(frozen=True)
class Bench:
    """Where scenarios are played: the patches in question, the files of the release, and the stage."""

    plan: PatchPlan
    released: Tree
    stage: Stage


def prove(bench: Bench, chain: list[Scenario], say: Callable[[str], None]) -> list[Seen]:
    """Play every scenario in order."""
    seen = []
    for number, scenario in enumerate(chain, 1):
        say(f"[{number}/{len(chain)}] {scenario.title}")
        seen.append(bench.stage(scenario, files_of(scenario, bench.plan, bench.released)))
        mark = "as expected" if seen[-1].as_expected else "NOT AS EXPECTED"
        say(f"    {mark} after {seen[-1].seconds:.0f} s: {seen[-1].cause}")
    return seen


def process_bench(deployment: Deployment, python: Path, say: Callable[[str], None]) -> Bench:
    """A bench of the CPU build of vLLM that is installed for `python`; logs are kept in the deployment's state.

    Raises MissingError where no vLLM is installed, UsageError where it has no patches.
    """
    kit, logs = deployment.kit, deployment.state / "proof"
    site, version = installed_site(python)
    method = kit.speculative.method if kit.speculative else None
    chosen = plan(version, "auto", catalog.product(), method=method)
    if not chosen.chosen:
        raise UsageError(f"there is nothing to prove: vLLM {version} has no patches", hint="kit patches list")
    released = reader(site)
    apart = plan(version, "auto", catalog.rehearsal(), method=method)
    changes = patched(released, [(metadata(item), item.series.text(item.diff)) for item in apart.chosen])
    logs.mkdir(parents=True, exist_ok=True)
    return Bench(chosen, released, in_process(kit, python, site, changes, logs, say))


def in_process(
    kit: Kit, python: Path, site: Path, changes: dict[str, str], logs: Path, say: Callable[[str], None]
) -> Stage:
    """The stage that runs an installed vLLM of the CPU as a process; `changes` are files that let it rehearse."""

    def play(scenario: Scenario, texts: dict[str, str]) -> Seen:
        with tempfile.TemporaryDirectory(prefix="kit-prove-") as name:
            folder = Path(name)
            overlay(site, folder / "site", texts | changes)
            values = cpu_twin(kit, scenario.form, "vllm-cpu-rehearsal", port=free_port(), watcher=folder)
            deployment = written(folder, values)
            log = logs / f"{scenario.form}-{len(scenario.baked)}.log"
            with served(deployment, python, folder / "site", log) as ended:
                healthy, cause = ended.ready, ended.reason
                if healthy:
                    healthy, cause = examined(deployment, say)
            if ended.ready:
                return Seen(scenario, healthy, False, cause, ended.seconds)
            return failed(scenario, log, ended.reason, ended.seconds)

    return play


def failed(scenario: Scenario, log: Path, reason: str, seconds: float) -> Seen:
    """What a start that failed showed: the diagnoser's first cause, and whether it is the expected one."""
    root = diagnose_file(log).root_cause
    cause = root.exception if root else reason
    symptom = scenario.absent is not None and shows(scenario.absent, cause)
    return Seen(scenario, False, symptom, cause, seconds)


def examined(deployment: Deployment, say: Callable[[str], None]) -> tuple[bool, str]:
    """Whether a twin that is ready serves as predicted, and a line that says so."""
    try:
        done = examine(deployment, api_of(deployment), say)
    except EngineFailed as error:
        return False, error.message
    return done.good, "healthy, counters and states exact" if done.good else "served, but not as predicted"


def written(folder: Path, values: dict[str, Any]) -> Deployment:
    """Write a kit.yaml into `folder` and load it."""
    files.write(folder / "kit.yaml", yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
    return load(folder / "kit.yaml", [])


def cpu_recipe(vllm: str) -> str:
    """The image recipe of the CPU twin of a release. Raises UsageError where it has none."""
    name = recipe_for(vllm, catalog.rehearsal())
    have = list(read_image(name).versions)
    if vllm not in have:
        raise UsageError(
            f"vLLM {vllm} has no twin on the CPU: images/{name} has {', '.join(have)}",
            hint=f"on a machine with a GPU: kit rehearse --gpu; else a release near it: --set engine.vllm={have[-1]}",
        )
    return name


def watcher_in(folder: Path) -> Path:
    """Put states.py into a folder of its own below `folder`, where a container can be given it."""
    place = (folder / "watcher").absolute()
    files.write(place / "states.py", Path(states.__file__).read_bytes())
    return place


def free_port() -> int:
    """A port of this machine that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def as_json(chosen: PatchPlan, seen: list[Seen]) -> dict[str, Any]:
    """`kit patches prove --json`."""
    return {
        "schema": "kit.patch-proof/1",
        "verdict": "pass" if all(item.as_expected for item in seen) else "fail",
        "vllm": chosen.vllm,
        "patches": [
            {"id": name, "red_without": red, "green_with": green} for name, (red, green) in red_and_green(seen).items()
        ],
        "starts": [
            {
                "form": item.scenario.form,
                "patches": list(item.scenario.baked),
                "absent": item.scenario.absent.id if item.scenario.absent else None,
                "as_expected": item.as_expected,
                "cause": item.cause,
                "seconds": round(item.seconds, 1),
            }
            for item in seen
        ],
    }
