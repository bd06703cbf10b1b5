"""`kit diagnose` on real containers: their logs, how they ended, and several of one compose project."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.engine import connect
from tests.docker.harness import run_kit

LOGS = Path(__file__).parents[1] / "data" / "logs"


@pytest.fixture
def container(image: None) -> Iterator[Callable[..., Any]]:
    """Starts a container that prints a log and then does what `end` says; removes it in the end."""
    with contextlib.closing(connect(lambda text: None).client()) as client:
        tag = next(t for i in client.images.list() for t in i.tags if "vllm-cpu" in t)
        made = []

        def start(log: Path, end: str, lines: int = 10_000, labels: dict[str, str] | None = None) -> Any:
            made.append(
                client.containers.run(
                    tag, ["-c", f"head -n {lines} /l/{log.name} >&2; {end}"], entrypoint="/bin/sh", detach=True,
                    network_mode="none", volumes={str(log.parent): {"bind": "/l", "mode": "ro"}}, labels=labels or {},
                    mem_limit="256m", memswap_limit="256m",
                )
            )  # fmt: skip
            if "sleep" not in end:
                made[-1].wait(timeout=60)
            return made[-1]

        yield start
        for one in made:
            one.remove(force=True)


def test_a_containers_own_log_is_read(container: Callable[..., Any]) -> None:
    done = run_kit("diagnose", "--container", container(LOGS / "cpu" / "draft_fc_shape.log", "exit 1").name, "--json")
    assert done.code == 4
    assert (done.json["root_cause"]["category"], done.json["root_cause"]["line"]) == ("spec-draft-load", 135)
    assert "the container ended with status 1" in done.json["notes"]


def test_a_kill_that_left_no_word_is_named_by_the_containers_end(container: Callable[..., Any]) -> None:
    box = container(LOGS / "cpu" / "oom_cgroup.log", "sleep 60", lines=25)
    running = run_kit("diagnose", "--container", box.name, "--json")
    assert (running.code, running.json["verdict"]) == (0, "healthy")
    box.kill()
    box.wait(timeout=60)
    ended = run_kit("diagnose", "--container", box.name, "--json")
    assert (ended.code, ended.json["root_cause"]["category"]) == (4, "host-oom-kill")


def test_the_containers_of_a_compose_project_are_woven(container: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    labels = {"com.docker.compose.project.config_files": str(file)}
    container(LOGS / "cpu" / "ok_tp2.log", "sleep 60", labels=labels | {"com.docker.compose.service": "other"})
    container(LOGS / "cpu" / "kv_too_small.log", "exit 1", labels=labels | {"com.docker.compose.service": "vllm"})
    done = run_kit("diagnose", "--compose", str(file), "--json")
    assert (done.code, done.json["root_cause"]["category"]) == (4, "kv-cache-too-small")


def test_what_is_not_there_is_said(engine: dict[str, Any], tmp_path: Path) -> None:
    done = run_kit("diagnose", "--container", "no-such-container")
    assert done.code == 5 and "there is no container" in done.err and "next:" in done.err
    done = run_kit("diagnose", "--compose", str(tmp_path / "compose.yaml"))
    assert done.code == 5 and "no container belongs to" in done.err
