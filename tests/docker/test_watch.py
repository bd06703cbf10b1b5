"""Watching through the real `kit up`: recorded starts played faster in a container, then the embedded engine itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.replay.deployment import playing
from benchmarks.replay.make_log import Start
from tests.docker.harness import ROOT, Box, Done, kit_command, kit_environment
from tests.docker.test_failures import kill_worker, processes, start

SPEED = 100


@pytest.fixture
def played(box: Callable[..., Box]) -> Callable[..., Box]:
    """Makes deployments whose `vllm` plays a generated start: see benchmarks/replay/vllm for the settings."""

    def make(kind: Start, *, limits: dict[str, Any] | None = None, **settings: str) -> Box:
        made = box(limits=limits or {})
        playing(made.file, kind, SPEED, **settings)
        return made

    return make


def events(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def up(made: Box, *args: str) -> Done:
    return made.kit("up", "--no-smoke", "--no-doctor", "--events", *args)


def test_a_start_of_eight_ranks_and_64_shards_is_told_as_its_log_tells_it(played: Callable[..., Box]) -> None:
    done = up(played(Start()))
    assert done.code == 0, done.err
    told = events(done)
    stages = [e["stage"] for e in told if e["event"] == "stage" and e["process"] is None]
    assert stages == [
        "config", "processes", "nccl", "load", "draft-load", "profile", "compile", "profile", "kv-cache", "warmup",
        "capture", "api", "serving",
    ]  # fmt: skip
    loading = sorted(e["rank"] for e in told if e["event"] == "stage" and e["stage"] == "load" and e["process"])
    assert loading == list(range(8))
    shards = [e["done"] for e in told if e["event"] == "progress" and e["stage"] == "load"]
    assert shards == list(range(65))
    figures = {e["name"]: e["value"] for e in told if e["event"] == "figure"}
    assert (figures["weights_s"], figures["kv_tokens"], figures["graphs_gib"]) == (1800.0, 185344.0, 1.13)
    assert told[-1]["event"] == "result" and told[-1]["result"]["verdict"] == "pass"


def test_another_terminal_sees_the_start_move(played: Callable[..., Box]) -> None:
    made = played(Start())
    command = kit_command("up", "--no-smoke", "--no-doctor", "-f", made.file)
    with subprocess.Popen(command, env=kit_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as up:
        wait_for_stage(made, "load")
        watched = made.kit("watch", "-n", "4", "--every", "1")
        assert up.wait(120) == 0
    shards = [int(n) for n in re.findall(r"starting: weights; (\d+) of 64 shards", watched.out)]
    assert len(set(shards)) >= 3 and shards == sorted(shards)


def test_a_crash_at_83_per_cent_ends_the_wait_although_the_server_stays(played: Callable[..., Box]) -> None:
    made = played(Start(crash_at=0.83), then="wait")
    done = up(made)
    assert done.code == 4, done.err
    told = events(done)
    assert [e["done"] for e in told if e["event"] == "progress"][-1] == 53
    root = told[-1]["result"]["diagnosis"]["root_cause"]
    assert (root["category"], root["process"], root["rank"]) == ("model-files", "worker", 3)
    assert json.loads((made.latest / "stages.json").read_text())["stage"] == "load"
    assert made.kit("status", "--json").json["container"]["status"] == "exited"


def test_a_worker_that_vanishes_without_a_word(played: Callable[..., Box]) -> None:
    made = played(Start(), kill="3@800", until="800", then="wait")
    told = events(up(made))
    assert "half dead: worker rank 3" in told[-1]["result"]["reason"]
    root = told[-1]["result"]["diagnosis"]["root_cause"]
    assert (root["category"], root["process"], root["rank"], root["stage"]) == ("native-crash", "worker", 3, "load")


def test_a_hang_is_ended_named_and_its_stacks_are_kept(played: Callable[..., Box]) -> None:
    made = played(Start(), limits={"stage_timeouts": {"nccl": 10}}, until="45", then="wait")
    told = events(up(made))
    assert told[-1]["result"]["reason"].startswith("hung: no progress for 1")
    assert told[-1]["result"]["diagnosis"]["root_cause"]["category"] in ("nccl-comm", "gpu-p2p")
    assert "Fatal Python error: Aborted" in (made.latest / "stacks.txt").read_text()
    assert "Fatal Python error" not in (made.latest / "container.log").read_text()
    report = made.kit("report")
    assert report.code == 0 and "do not get past setting up" in Path(report.out.strip()).read_text()


def test_a_server_that_ends_by_itself(played: Callable[..., Box]) -> None:
    told = events(up(played(Start(), until="200", then="exit 3")))
    assert told[-1]["result"]["reason"] == "the container ended with status 3"


@pytest.mark.slow
def test_former_starts_teach_how_long_it_takes(played: Callable[..., Box]) -> None:
    made = played(Start(minutes=5))
    assert up(made).code == 0
    assert made.kit("down").code == 0
    again = made.kit("up", "--no-smoke", "--no-doctor")
    assert again.code == 0 and "weights" in again.err
    first, second = sorted(p for p in made.latest.parent.iterdir() if p.name != "latest")
    taught = json.loads((first / "stages.json").read_text())["seconds"]
    assert taught["load"] > taught["capture"] > 0
    assert json.loads((second / "stages.json").read_text())["ready_s"] is not None


def test_the_embedded_engine_from_its_start_to_its_report(box: Callable[..., Box]) -> None:
    made = box()
    done = made.kit("up", "--json")
    assert done.code == 0, done.err
    stages = json.loads((made.latest / "stages.json").read_text())
    assert [s["stage"] for s in stages["spans"]] == [
        "boot", "config", "processes", "nccl", "load", "draft-load", "kv-cache", "api", "serving",
    ]  # fmt: skip
    assert {p["role"] for p in stages["processes"]} == {"api_server", "engine_core", "worker"}
    assert stages["figures"]["kv_gib"] == 1.0 and stages["figures"]["version"] == "0.32.0"
    logged = {(e["process"], e["pid"]) for e in map(json.loads, (made.latest / "events.jsonl").open()) if e.get("pid")}
    assert len(logged) == 3

    status = made.kit("status", "--json").json
    assert (status["version"], status["errors"], status["running"]) == ("0.32.0", 0, 0)
    assert status["kv_use"] is not None and status["speculation"]["acceptance_rate"] == 1.0
    watched = made.kit("watch", "-n", "2", "--every", "0.5")
    assert watched.code == 0 and watched.out.count("ready") == 2

    page = Path(made.kit("report").out.strip()).read_text()
    assert "and passed the smoke test" in page and "255 of 255 draft tokens" in page
    archive = made.folder / "s.tar.gz"
    assert made.kit("support", "-o", str(archive)).code == 0
    opened = Box(made.folder, archive, 0)
    assert "healthy" in opened_by_diagnose(opened)


def opened_by_diagnose(archive: Box) -> str:
    command = [sys.executable, "-m", "kit", "diagnose", str(archive.file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_a_worker_that_stands_still_is_a_hang(box: Callable[..., Box]) -> None:
    made = box(limits={"stage_timeouts": {"load": 20, "draft-load": 20, "nccl": 20, "kv-cache": 20}})
    running = start(made)
    wait_for_stage(made, "nccl")
    kill_worker(made, signal.SIGSTOP)
    out, err = running.communicate(timeout=240)
    assert running.returncode == 4, err
    told = json.loads(out)
    assert told["reason"].startswith("hung: no progress for 2")
    assert "state T" in (made.latest / "processes.txt").read_text()


@pytest.mark.slow
def test_the_engine_core_killed_before_it_has_workers(box: Callable[..., Box]) -> None:
    made = box()
    running = start(made)
    wait_for_stage(made, "processes")
    pid = next(pid for pid, name in processes(made).items() if "EngineCore" in name)
    os.kill(pid, signal.SIGKILL)
    out, err = running.communicate(timeout=240)
    assert running.returncode == 4, err
    root = json.loads(out)["diagnosis"]["root_cause"]
    assert root["process"] in ("engine_core", "api_server") and root["category"] in ("native-crash", "host-oom-kill")


def wait_for_stage(made: Box, stage: str, limit: float = 240) -> None:
    import time

    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        path = made.latest / "events.jsonl"
        if path.is_file() and f'"stage": "{stage}"' in path.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"stage {stage} never came")
