"""Starts broken in many ways through the real `kit up`: how soon each was noticed, and what was said of it.

    python -m benchmarks.replay.broken FOLDER [--port 8110] [--only REGEX]

Every case is a deployment of the embedded image. For a process that is killed or stopped the delay counts from that
moment, else from the first line of the log that bears an error, or the container's end (by Docker's own time stamps,
not the kit's); it ends when `kit up` stopped waiting. `told` is when the process ended with its diagnosis printed. A
table goes to stdout, rows to FOLDER/broken.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.replay.deployment import ROOT, embedded
from kit.config import load
from kit.engine import connect
from kit.reference import write
from kit.reference.faults import write_fault
from kit.render.container import container_name
from kit.serve import container as box
from kit.watch.processes import ProcessSample, of_container

_ERROR = re.compile(rb"\b(?:ERROR|CRITICAL) |Traceback \(most recent|: error: |Fatal Python error|Killed")


@dataclass
class Try:
    """One case under way: its kit.yaml, when it was hurt (seconds since 1970), who was, and what runs."""

    file: Path
    hurt: float | None = None
    victim: ProcessSample | None = None
    up: subprocess.Popen[str] | None = None
    held: list[Any] = field(default_factory=list)

    @property
    def run(self) -> Path:
        return self.file.parent / ".kit" / "broken" / "runs" / "latest"

    def processes(self) -> tuple[ProcessSample, ...]:
        client = connect().client()
        try:
            found = box.find(client, container_name(load(self.file, [])))
            return of_container(box.state(client, str(found.id)).pid) or () if found else ()
        finally:
            client.close()

    def wait_for(self, text: str) -> None:
        """Until the followed log, or its events, hold `text`."""
        limit = time.monotonic() + 300
        while time.monotonic() < limit and (self.up is None or self.up.poll() is None):
            for name in ("container.log", "events.jsonl"):
                path = self.run / name
                if path.is_file() and text in path.read_text(errors="replace"):
                    return
            time.sleep(0.01)
        raise RuntimeError(f"{text!r} never came")

    def hit(self, name: str, sig: int = signal.SIGKILL) -> None:
        """Send a signal to the process whose name begins so."""
        self.victim = next(p for p in self.processes() if p.name.startswith(name))
        os.kill(self.victim.pid, sig)
        self.hurt = self.hurt or time.time()


API, CORE, WORKER = "vllm", "VLLM::EngineCor", "VLLM::Worker"


def killed(name: str, after: str, sig: int = signal.SIGKILL) -> Callable[[Try], None]:
    def act(case: Try) -> None:
        case.wait_for(after)
        case.hit(name, sig)

    return act


def nobody_left_to_tell(case: Try) -> None:
    """The engine core, which would tell, stands still; then its worker ends."""
    case.wait_for("Starting to load model")
    case.hit(CORE, signal.SIGSTOP)
    case.hurt = None
    case.hit(WORKER)


def killed_while_serving(case: Try) -> None:
    assert case.up is not None
    case.up.wait()
    case.up = kit("watch", "--every", "0.5", file=case.file)
    time.sleep(5)
    case.hit(WORKER)


def nothing(case: Try) -> None:
    pass


def own_target(case: Try) -> Path:
    target = write("kimi-k2.5", case.file.parent / "own", vllm="0.32.0", drafters=["full"]).target
    text = case.file.read_text().replace("  reference: kimi-k2.5\n", f"  path: {target}\n")
    case.file.write_text(text.replace("    reference: aux\n", f"    path: {case.file.parent}/own/drafters/full\n"))
    return target


def truncated(case: Try) -> None:
    path = own_target(case) / "model.safetensors"
    os.truncate(path, path.stat().st_size // 2)


def missing_weights(case: Try) -> None:
    (own_target(case) / "model.safetensors").unlink()


def wrong_drafter(case: Try) -> None:
    folder = write_fault("narrow-fc", case.file.parent / "drafters")
    case.file.write_text(case.file.read_text().replace("    reference: aux\n", f"    path: {folder}\n"))


def taken_port(case: Try) -> None:
    held = socket.socket()
    held.bind(("127.0.0.1", load(case.file, []).kit.server.port))
    held.listen()
    case.held.append(held)


@dataclass(frozen=True)
class Case:
    """What is prepared, what is set, what is done to it, and what ought to be said: categories and process."""

    name: str
    category: tuple[str, ...]
    process: str
    act: Callable[[Try], None] = nothing
    prepare: Callable[[Try], None] = nothing
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)


GONE = ("native-crash", "host-oom-kill")
LIMITS = {"limits": {"stage_timeouts": {stage: 75 for stage in ("nccl", "load", "draft-load", "kv-cache")}}}
CASES = (
    Case("API server killed, configuration", GONE, "api_server", killed(API, "version 0.32.0")),
    Case("engine core killed, process start", GONE, "engine_core", killed(CORE, "Initializing a V1 LLM engine")),
    Case("worker killed, communication", GONE, "worker", killed(WORKER, "distributed_init_method")),
    Case("worker killed, weights", GONE, "worker", killed(WORKER, "Starting to load model")),
    Case("worker killed, drafter weights", GONE, "worker", killed(WORKER, "Loading drafter model")),
    Case("worker killed, KV cache", GONE, "worker", killed(WORKER, '"stage": "kv-cache"')),
    Case("engine core killed, KV cache", GONE, "engine_core", killed(CORE, '"stage": "kv-cache"')),
    Case("API server killed, API start", GONE, "api_server", killed(API, "init engine")),
    # from the log alone, later: vLLM's engine core reports which worker it was
    Case("worker killed, serving", GONE, "engine_core", killed_while_serving, sections={"limits": {"restarts": 0}}),
    Case("worker killed, engine core stopped", GONE, "worker", nobody_left_to_tell),
    Case("worker crashes (SIGSEGV), weights", ("native-crash",), "worker",
         killed(WORKER, "Starting to load model", signal.SIGSEGV)),
    Case("worker stands still (SIGSTOP), weights", ("timeout-hang",), "worker",
         killed(WORKER, "Starting to load model", signal.SIGSTOP), sections=LIMITS),
    Case("drafter of a wrong shape", ("spec-draft-load",), "worker", prepare=wrong_drafter),
    Case("weights file truncated", ("model-files",), "worker", prepare=truncated),
    Case("weights file missing", ("model-files",), "worker", prepare=missing_weights),
    Case("port taken", (), "", prepare=taken_port),
    Case("unknown flag", ("cli-args",), "api_server", sections={"engine": {"args": ["--no-such-flag"]}}),
    Case("KV cache too small", ("kv-cache-too-small",), "engine_core",
         sections={"engine": {"args": ["--num-gpu-blocks-override=3"]}}),
    Case("/dev/shm too small", ("shm-too-small",), "engine_core", sections={"limits": {"shm": "1MiB"}}),
    Case("memory limit too small", ("host-oom-kill",), "", sections={"limits": {"memory": "900MiB"}}),
)  # fmt: skip


def kit(*args: str, file: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    with (file.parent / f"{args[0]}.txt").open("w") as told:
        return subprocess.Popen(
            [sys.executable, "-m", "kit", *args, "-f", str(file)], env=environment, stdout=told, stderr=told, text=True
        )


def first_error(file: Path) -> float | None:
    """When the container printed its first error, or ended without one, by Docker (seconds since 1970)."""
    client = connect().client()
    try:
        found = box.find(client, container_name(load(file, [])))
        if found is None:
            return None
        lines = found.logs(timestamps=True).split(b"\n")
        finished = box.state(client, str(found.id)).finished_at
    finally:
        client.close()
    line = next((line for line in lines if _ERROR.search(line)), None)
    stamp = line.decode(errors="replace") if line else finished
    return datetime.fromisoformat(stamp[:26].rstrip("Z") + "+00:00").timestamp()


def run(case: Case, folder: Path, port: int) -> dict[str, Any]:
    """Try one case; what was measured."""
    shutil.rmtree(folder, ignore_errors=True)
    trial = Try(embedded(folder, "broken", port, **case.sections))
    case.prepare(trial)
    began = time.time()
    trial.up = kit("up", "--no-doctor", "--no-smoke", file=trial.file)
    case.act(trial)
    code = trial.up.wait(600)
    ended = time.time()
    events = []
    if (trial.run / "events.jsonl").is_file():
        events = [json.loads(line) for line in (trial.run / "events.jsonl").open()]
    failed = next((e for e in events if e["event"] == "failed"), None)
    stages = [e["stage"] for e in events if e["event"] == "stage" and e["process"] is None]
    noticed = datetime.fromisoformat(failed["time"]).timestamp() if failed else ended
    error = first_error(trial.file)
    began_to_fail = trial.hurt or error or began
    root: dict[str, Any] = {}
    if case.act is killed_while_serving:
        kit("diagnose", "--json", file=trial.file).wait()
        root = json.loads((folder / "diagnose.txt").read_text())["root_cause"]
    elif (trial.run / "diagnosis.json").is_file():
        root = json.loads((trial.run / "diagnosis.json").read_text())["root_cause"] or {}
    for held in trial.held:
        held.close()
    pid = trial.victim.inner if trial.victim else None
    right = root.get("category") in case.category if case.category else code == 5
    right = right and case.process in ("", root.get("process")) and (pid is None or root.get("pid") in (pid, None))
    return {
        "case": case.name, "exit": code, "end": failed and failed["kind"], "stage": (stages or ["boot"])[-1],
        "category": root.get("category"), "process": root.get("process"), "rank": root.get("rank"),
        "pid": root.get("pid"), "victim": pid, "sure": root.get("confidence"), "summary": root.get("summary"),
        "from": "hit" if trial.hurt else "error" if error else "start", "delay_s": round(noticed - began_to_fail, 2),
        "after_error_s": error and round(noticed - error, 2), "told_s": round(ended - began_to_fail, 2), "right": right,
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    out = ["| broken how | diagnosis | noticed after | told after |", "| --- | --- | --- | --- |"]
    for row in rows:
        who = (row["process"] or "").replace("_", " ")
        said = f"`{row['category']}`, {who}, {row['sure']:.0%} sure" if row["category"] else f"exit code {row['exit']}"
        wrong = "" if row["right"] else " (wrong)"
        out.append(f"| {row['case']} | {said}{wrong} | {row['delay_s']:.1f} s | {row['told_s']:.1f} s |")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8110)
    parser.add_argument("--only", help="only cases whose name this regular expression finds")
    given = parser.parse_args()
    only = re.compile(given.only or "")
    rows = []
    for number, case in enumerate(CASES):
        if not only.search(case.name):
            continue
        folder = given.folder.resolve() / f"{number:02}"
        try:
            rows.append(run(case, folder, given.port))
        except (RuntimeError, StopIteration, OSError) as error:
            print(f"{case.name}: could not be tried: {error!r}", file=sys.stderr, flush=True)
            continue
        finally:
            if (folder / "kit.yaml").exists():
                kit("down", file=folder / "kit.yaml").wait()
        with (given.folder / "broken.jsonl").open("a") as kept:
            print(json.dumps(rows[-1]), file=kept)
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
