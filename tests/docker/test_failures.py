"""A real server broken in many ways: each ends with the right exit code and the right diagnosis."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from kit.reference import write
from kit.reference.faults import write_fault
from tests.docker.harness import Box, Done, kit_command, kit_environment, with_ctrl_c


def diagnosis(done: Done, made: Box, *, code: int = 4) -> dict[str, Any]:
    """The diagnosis of a failed start, once its line has been found in the log."""
    assert done.code == code, done.err + done.out
    told = done.json["diagnosis"]
    root = told["root_cause"]
    if root["line"] is not None:
        lines = (made.latest / "container.log").read_bytes().decode(errors="replace").split("\n")
        if root["exception"]:
            said = [part.split(": ", 1)[-1].strip()[:40] for part in root["exception"].split("\n")]
            assert any(part and part in lines[root["line"] - 1] for part in said), (said, lines[root["line"] - 1])
    assert root["remedy"]
    return dict(told)


def check(root: dict[str, Any], category: str | set[str], process: str | set[str]) -> None:
    assert root["category"] in ({category} if isinstance(category, str) else category), root
    assert root["process"] in ({process} if isinstance(process, str) else process), root


def with_drafter(box: Callable[..., Box], tmp_path: Path, fault: str, **sections: dict[str, Any]) -> Box:
    folder = write_fault(fault, tmp_path / "drafters")
    return box(speculative={"drafter": {"path": str(folder)}}, **sections)


SLOW = pytest.mark.slow  # of a kind whose first member every change runs


@pytest.mark.parametrize(
    "fault",
    ["narrow-fc", pytest.param("other-vocabulary", marks=SLOW), pytest.param("half-hidden-size", marks=SLOW)],
)
def test_a_drafter_that_does_not_load(box: Callable[..., Box], tmp_path: Path, fault: str) -> None:
    made = with_drafter(box, tmp_path, fault)
    told = diagnosis(made.kit("up", "--json"), made)
    check(told["root_cause"], "spec-draft-load", "worker")
    assert told["chain"][0]["process"] == "worker"


@pytest.mark.parametrize(
    "fault", ["late-layers", pytest.param("swapped-slots", marks=SLOW), pytest.param("missing-d2t", marks=SLOW)]
)
def test_a_drafter_that_starts_healthy_and_is_wrong(box: Callable[..., Box], tmp_path: Path, fault: str) -> None:
    """The log shows nothing; the smoke test must."""
    made = with_drafter(box, tmp_path, fault, smoke={"gates": {"mean_acceptance_length": 3}})
    done = made.kit("up", "--json")
    assert done.code == 3, done.err
    assert done.json["smoke"]["mean_acceptance_length"] < 1.2
    assert "mean acceptance length" in done.err


def test_a_drafter_that_kills_the_first_request(box: Callable[..., Box], tmp_path: Path) -> None:
    made = with_drafter(box, tmp_path, "duplicate-layers")
    told = diagnosis(made.kit("up", "--json"), made)
    check(told["root_cause"], "spec-runtime", {"worker", "engine_core"})


def spoiled_target(made: Box, spoil: Callable[[Path], None]) -> None:
    """Give the deployment a target of its own and spoil it."""
    target = write("kimi-k2.5", made.folder / "own", vllm="0.32.0", drafters=["full"]).target
    spoil(target)
    text = made.file.read_text()
    text = re.sub(r"  reference: kimi-k2.5\n", f"  path: {target}\n", text)
    text = re.sub(r"    reference: aux\n", f"    path: {made.folder / 'own' / 'drafters' / 'full'}\n", text)
    made.file.write_text(text)


def truncate(target: Path) -> None:
    path = target / "model.safetensors"
    os.truncate(path, path.stat().st_size // 2)


def forbid(target: Path) -> None:
    (target / "model.safetensors").chmod(0)


def drop_tensor(target: Path) -> None:
    tensors = load_file(target / "model.safetensors")
    del tensors["language_model.model.layers.3.input_layernorm.weight"]
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})


def other_architecture(target: Path) -> None:
    path = target / "config.json"
    path.write_text(path.read_text().replace("KimiK25ForConditionalGeneration", "NopeForCausalLM"))


@pytest.mark.parametrize(
    ("spoil", "category", "process"),
    [
        (truncate, "model-files", "worker"),
        pytest.param(forbid, {"host-resource", "model-files"}, "worker", marks=SLOW),
        pytest.param(drop_tensor, "model-files", "worker", marks=SLOW),
        (other_architecture, "model-unsupported", "api_server"),
    ],
)
def test_a_spoiled_target(
    box: Callable[..., Box], spoil: Callable[[Path], None], category: str | set[str], process: str
) -> None:
    made = box()
    spoiled_target(made, spoil)
    told = diagnosis(made.kit("up", "--json", "--no-doctor"), made)
    check(told["root_cause"], category, process)


@pytest.mark.parametrize(
    ("sections", "category", "process"),
    [
        ({"model": {"max_model_len": 8192}}, "config-invalid", "api_server"),
        ({"engine": {"args": ["--no-such-flag"]}}, "cli-args", {"api_server", "none"}),
        ({"engine": {"args": ["--num-gpu-blocks-override=3"]}}, "kv-cache-too-small", {"engine_core", "worker"}),
        ({"limits": {"shm": "1MiB"}}, "shm-too-small", {"engine_core", "worker"}),
        ({"limits": {"memory": "900MiB"}}, "host-oom-kill", {"api_server", "engine_core", "worker", "container"}),
    ],
    ids=["context", "flag", "kv", "shm", "memory"],
)
def test_settings_that_cannot_work(
    box: Callable[..., Box], sections: dict[str, Any], category: str, process: str | set[str]
) -> None:
    made = box(**sections)
    told = diagnosis(made.kit("up", "--json", "--no-doctor"), made)
    check(told["root_cause"], category, process)


def test_the_doctor_stops_a_start_that_cannot_work(box: Callable[..., Box]) -> None:
    made = box()
    spoiled_target(made, truncate)
    done = made.kit("up")
    assert done.code == 3, done.err
    assert "nothing was started" in done.err and "model.safetensors" in done.err
    assert made.kit("status").code == 5


def processes(made: Box) -> dict[int, str]:
    """pid -> command name of every process of the deployment's container, as this machine numbers them."""
    from kit.config import load
    from kit.engine import connect
    from kit.render.container import container_name

    client = connect().client()
    try:
        top = client.api.top(container_name(load(made.file)), ps_args="-eo pid,args")
    finally:
        client.close()
    return {int(row[0]): row[1] for row in top["Processes"]}


def kill_worker(made: Box, sig: int = signal.SIGKILL) -> None:
    pid = next(pid for pid, name in processes(made).items() if "Worker" in name)
    os.kill(pid, sig)


def start(made: Box) -> subprocess.Popen[str]:
    return subprocess.Popen(
        kit_command("up", "--json", "-f", made.file),
        env=kit_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=with_ctrl_c,
    )


def wait_for_line(made: Box, text: str, limit: float = 240) -> None:
    """Wait until the followed log of the newest run holds `text`."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        log = made.latest / "container.log"
        if log.is_file() and text in log.read_text(errors="replace"):
            return
        time.sleep(0.05)
    raise AssertionError(f"{text!r} never came")


def test_a_worker_killed_while_loading(box: Callable[..., Box]) -> None:
    made = box()
    running = start(made)
    wait_for_line(made, "Starting to load model")
    kill_worker(made)
    out, err = running.communicate(timeout=120)
    told = diagnosis(Done(running.returncode, out, err), made)
    check(told["root_cause"], {"host-oom-kill", "native-crash"}, {"worker", "engine_core"})


def test_a_worker_killed_while_serving(box: Callable[..., Box]) -> None:
    """Docker restarts it once; status and diagnose tell what happened."""
    made = box(limits={"restarts": 0})
    assert made.kit("up").code == 0
    kill_worker(made)
    for _ in range(100):
        status = made.kit("status", "--json")
        if status.code == 4:
            break
        time.sleep(0.2)
    assert status.json["verdict"] == "dead"
    told = made.kit("diagnose", "--json")
    assert told.code == 4, told.err
    check(told.json["root_cause"], {"host-oom-kill", "native-crash"}, {"worker", "engine_core"})


def test_a_worker_that_is_stopped_while_serving(box: Callable[..., Box]) -> None:
    """The API server looks well all the while: status and smoke name the process that keeps it from answering."""
    made = box(limits={"restarts": 0}, smoke={"timeout": 20})
    assert made.kit("up").code == 0
    kill_worker(made, signal.SIGSTOP)
    status = made.kit("status", "--json")
    assert (status.code, status.json["verdict"]) == (3, "not-ready") and "kill -CONT" in status.json["why"]
    smoke = made.kit("smoke", "--json")
    assert smoke.code == 4, smoke.err
    check(smoke.json["diagnosis"]["root_cause"], "timeout-hang", "worker")
    kill_worker(made, signal.SIGCONT)
    assert made.kit("status", "--json").json["verdict"] == "ready"


def test_ctrl_c_while_starting_leaves_nothing_running(box: Callable[..., Box]) -> None:
    made = box()
    running = start(made)
    wait_for_line(made, "vLLM")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert made.kit("status").code in (4, 5)
    assert (made.latest / "container.log").stat().st_size > 0


def test_a_taken_port_is_said_before_anything_starts(box: Callable[..., Box]) -> None:
    made = box()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", made.port))
        taken.listen()
        done = made.kit("up")
    assert done.code == 5
    assert f"port {made.port} on 127.0.0.1 is taken" in done.err
    assert "ss -ltnp" in done.err
    assert made.kit("status").code == 5


def test_missing_things_are_said(box: Callable[..., Box]) -> None:
    gone = box(speculative={"drafter": {"path": "/no/such/drafter"}}).kit("up")
    assert gone.code == 5 and "/no/such/drafter does not exist" in gone.err
    image = box(engine={"existing": "kit/none:0"}).kit("up")
    assert image.code == 5 and "no image kit/none:0" in image.err
    key = box(server={"api_key_file": "nokey"}).kit("up")
    assert key.code == 5 and "API key file" in key.err


def test_no_engine_is_said(box: Callable[..., Box]) -> None:
    made = box()
    environment = kit_environment() | {"DOCKER_HOST": "unix:///no/such.sock"}
    done = subprocess.run(kit_command("up", "-f", made.file), env=environment, capture_output=True, text=True)
    assert done.returncode == 5
    assert "no Docker engine answers" in done.stderr
    assert shutil.which("docker") is None or "next:" in done.stderr
