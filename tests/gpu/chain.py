"""The chain on a GPU machine: sets the test bed up and runs phases of cases.yaml; `run.sh` calls it.

python -m tests.gpu.chain setup | PHASE...     with BED, OUT, KIT_HOME and MACHINE_PYTHON in the environment

OUT gets result.json (kit.gpu-chain/1), which grows with every phase, and logs.tar.xz.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tarfile
import threading
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from kit import __version__, files
from kit.cli import out as screen
from kit.errors import GateError, KitError, MissingError
from tests.gpu import bed as beds
from tests.gpu import cases as table
from tests.gpu import links, steps
from tests.gpu.cases import Case

MEASURED_TOKENS = 600
# What vLLM says of memory and kernels, by the name it gets in the result.
FIGURES = {
    "weights_gib": r"Model loading took ([\d.]+) GiB",
    "kv_cache_gib": r"Available KV cache memory: (-?[\d.]+) GiB",
    "kv_cache_tokens": r"GPU KV cache size: ([\d,]+) tokens",
    "cuda_graphs_gib": r"Graph capturing finished in .*took ([\d.]+) GiB",
    "compile_s": r"torch\.compile took ([\d.]+) s",
    "allreduce": r"Using \[([^\]]*)\] all-reduce backends",
    "nccl": r"vLLM is using nccl==(\S+)",
    "nccl_ways": r"NCCL INFO Channel .* via (\S+)",
    "experts": r"Expert parallelism is enabled\..* number of experts: (\d+/\d+)",
    "attention": r"Using (?:AttentionBackendEnum\.)?(\w+) (?:attention )?backend",
    "mla_prefill": r"Using (\w+) for MLA prefill|MLA prefill.*?(\w+)$",
}


class Chain:
    """One run over a test bed; `result` is what result.json will hold."""

    def __init__(self, bed: beds.Bed, out: Path, *, gpu: bool):
        self.bed, self.out, self.gpu = bed, out, gpu
        self.content = table.read()
        self.saved = bed.root / "result.json"
        self.result: dict[str, Any] = json.loads(self.saved.read_text()) if self.saved.exists() else {
            "schema": "kit.gpu-chain/1", "date": f"{datetime.now(UTC):%Y-%m-%d}", "kit": __version__,
            "vllm": self.content.base["engine"]["vllm"], "machine": bed.facts, "cases": []
        }  # fmt: skip
        for number, case in enumerate(self.content.cases):
            made = table.kit_yaml(
                self.content,
                number,
                {"image": bed.image, "mounts": bed.mounts, "site": str(bed.root / "site")},
                gpu=gpu,
            )
            files.write(self.file(case), yaml.safe_dump(made, sort_keys=False))

    def file(self, case: Case) -> Path:
        return self.bed.deploy / f"{case.id}.yaml"

    def log(self, case: Case) -> Path:
        return self.bed.deploy / ".kit" / case.id / "runs" / "latest" / "container.log"

    def probe(self) -> None:
        """The machine as the kit sees it, before anything runs on its cards."""
        cards = links.count()
        first = next((c for c in self.content.cases if c.cards == cards), self.content.cases[0])
        for verb, *args in (["probe", "--anonymize"], ["doctor", "-f", str(self.file(first))]):
            done = steps.kit(verb, *args, "--json")
            self.result[verb] = {"exit": done.code, "seconds": round(done.seconds, 2), "found": done.json}
            if done.json is None:
                self.result[verb]["said"] = done.said[-2000:]
            say(f"kit {verb}: exit {done.code} after {done.seconds:.1f} s")
        if cards > 1:
            self.result["links"] = links.against(self.result["probe"]["found"] or {})
            say(f"the ways between the cards: {self.result['links']}")

    def phase(self, name: str, only: Iterable[str] = ()) -> None:
        """All cases of a phase: started together, measured one by one, ended together."""
        chosen = [c for c in self.content.cases if c.phase == name and (not only or c.id in only)]
        rows = {case.id: {"id": case.id, "phase": name, "text": case.text} for case in chosen}
        together(self._start, chosen, rows)
        for case in chosen:
            guarded(self._look, case, rows[case.id])
        together(self._end, chosen, rows)
        for case in chosen:
            row = rows[case.id]
            say(f"{case.id}: {row['verdict']}" + "".join(f"; {why}" for why in row["faults"]))
        self.result["cases"] = [r for r in self.result["cases"] if r["id"] not in rows] + list(rows.values())

    def save(self) -> None:
        """Write what is known so far, and the logs, to OUT."""
        files.write(self.saved, json.dumps(self.result, indent=1) + "\n")
        self.out.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.saved, self.out)
        with tarfile.open(self.out / "logs.tar.xz", "w:xz") as tar:
            for log in sorted((self.bed.deploy / ".kit").glob("*/runs/*/*.*")):
                if not log.parent.is_symlink():
                    tar.add(log, f"{log.parts[-4]}/{log.parts[-2]}/{log.name}")

    def _start(self, case: Case, row: dict[str, Any]) -> None:
        file = self.file(case)
        shutil.rmtree(self.bed.deploy / ".kit" / case.id, ignore_errors=True)
        row["render"] = steps.kit("render", "-f", file).code
        if case.plan:
            row["plan"] = steps.kit("plan", "-f", file, "--json").json
        with steps.holding(case.hold if self.gpu else None), ThreadPoolExecutor(1) as aside:
            row["doctor"] = brief(steps.kit("doctor", "-f", file, "--json").json)
            ended = threading.Event()
            killing = aside.submit(self._kill, case, row, ended) if case.kill and case.kill.when != "ready" else None
            try:
                up = self._up(case, row)
            finally:
                ended.set()
            row |= {
                "up": up.code,
                "up_s": round(up.seconds, 1),
                "report": up.json,
                "said": up.said[-3000:],
                "ended": up.ended,
            }
        row["figures"] = figures(self.log(case).read_text(errors="replace")) if self.log(case).exists() else {}
        if killing is not None:
            killing.result()

    def _up(self, case: Case, row: dict[str, Any]) -> steps.Done:
        """`kit up`; where its preflight refuses the start, that is kept, and the engine is started all the same."""
        words = ["-f", self.file(case), "--json", *(["--no-smoke"] if case.no_smoke else [])]
        up = steps.kit("up", *words)
        if up.json is None and up.code in (GateError.exit_code, MissingError.exit_code):
            row["refused"] = {"exit": up.code, "after_s": round(up.seconds, 1), "said": up.said[-2000:]}
            up = steps.kit("up", *words, "--no-doctor")
        return up

    def _kill(self, case: Case, row: dict[str, Any], ended: threading.Event) -> None:
        assert case.kill is not None
        row["killed"] = steps.kill_worker(self.file(case), case.kill, self.log(case), ended)

    def _look(self, case: Case, row: dict[str, Any]) -> None:
        file = self.file(case)
        if case.kill and case.kill.when == "ready" and row["up"] == 0:
            self._kill_idle(case, row)
        elif case.measure and row["up"] == 0:
            row["measured"] = steps.kit(
                "smoke", "-f", file, "--set", f"smoke.max_tokens={MEASURED_TOKENS}", "--json"
            ).json
        row["status"] = (steps.kit("status", "-f", file, "--json").json or {}).get("verdict")
        self._judge(case, row)

    def _kill_idle(self, case: Case, row: dict[str, Any]) -> None:
        """Kill the worker of a service that is up; wait until `kit status` says so, then diagnose its log."""
        file = self.file(case)
        self._kill(case, row, threading.Event())
        for _ in range(120):
            status = steps.kit("status", "-f", file, "--json")
            if (status.json or {}).get("verdict") == "dead":
                break
        row["dead_after_s"] = round(status.ended - row["killed"], 2)
        log = self.log(case).with_name("after.log")
        files.write(log, "\n".join(steps.log_times(file)[0]))
        diagnosed = steps.kit("diagnose", log, "--json")
        row["report"] = {"diagnosis": diagnosed.json}
        row["ended"] = diagnosed.ended

    def _judge(self, case: Case, row: dict[str, Any]) -> None:
        diagnosis = (row["report"] or {}).get("diagnosis")
        root = (diagnosis or {}).get("root_cause")
        line = ""
        if root and root["line"]:
            lines, times = steps.log_times(self.file(case))
            if root["line"] <= len(lines):
                line = lines[root["line"] - 1]
                row["delay_s"] = round(row["ended"] - times[root["line"] - 1], 2)
        if "killed" in row:
            row["delay_after_kill_s"] = round(row["ended"] - row["killed"], 2)
        row["line"] = line[:400]
        row["faults"] = table.faults(case.expect, table.found(row))
        if "refused" in row and case.expect.exit == 0:
            row["faults"].append("kit doctor refused a start that works")
        row["verdict"] = "fail" if row["faults"] else "pass"

    def _end(self, case: Case, row: dict[str, Any]) -> None:
        row["down"] = steps.kit("down", "-f", self.file(case)).code


def brief(doctor: dict[str, Any] | None) -> dict[str, Any] | None:
    """A `kit doctor` report cut down to its verdict and what did not pass."""
    if doctor is None:
        return None
    bad = {c["id"]: f"{c['status']}: {c['found']}" for c in doctor["checks"] if c["status"] in ("fail", "warn")}
    return {"verdict": doctor["verdict"], "checks": len(doctor["checks"]), **({"not_passed": bad} if bad else {})}


def figures(log: str) -> dict[str, str]:
    """What vLLM says of memory and kernels in its log; a name is absent where it says nothing."""
    found = {}
    for name, pattern in FIGURES.items():
        matches = re.findall(pattern, log, re.MULTILINE)
        if matches:
            texts = ["".join(m) if isinstance(m, tuple) else m for m in matches]
            found[name] = ", ".join(dict.fromkeys(texts))
    return found


def together(step: Callable[[Case, dict[str, Any]], None], chosen: list[Case], rows: dict[str, dict[str, Any]]) -> None:
    """One step of every case at once."""
    with ThreadPoolExecutor(max(len(chosen), 1)) as pool:
        waiting: list[Future[None]] = [pool.submit(guarded, step, case, rows[case.id]) for case in chosen]
        for future in waiting:
            future.result()


def guarded(step: Callable[[Case, dict[str, Any]], None], case: Case, row: dict[str, Any]) -> None:
    """A step whose own fault fails its case and no other."""
    try:
        step(case, row)
    except Exception:
        row.setdefault("faults", []).append(traceback.format_exc()[-1500:])
        row["verdict"] = "fail"


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S}  {text}", file=sys.stderr, flush=True)


def main(words: list[str]) -> int:
    root, out = Path(os.environ["BED"]), Path(os.environ["OUT"])
    gpu = os.environ.get("DEVICE", "cuda") == "cuda"
    beds.use_engine(root)
    if words == ["setup"]:
        bed = beds.set_up(root, "cuda" if gpu else "cpu")
        say(f"test bed ready: {bed.facts}")
        return 0
    chain = Chain(beds.load(root), out, gpu=gpu)
    known = table.phases(chain.content.cases)
    for word in words:
        phase, _, only = word.partition("=")
        if phase != "probe" and phase not in known:
            print(f"no phase {phase!r}; there are: probe {' '.join(known)}", file=sys.stderr)
            return 2
        chain.probe() if phase == "probe" else chain.phase(phase, only.split(",") if only else ())
        chain.save()
    return 0 if all(row["verdict"] == "pass" for row in chain.result["cases"]) else 3


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KitError as error:
        screen.error(error)
        sys.exit(error.exit_code)
