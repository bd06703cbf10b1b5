"""`kit doctor` as a process, against the stand-in machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.advice import accepted
from kit.checks.doctor import doctor, preflight
from kit.checks.facts import Facts
from kit.checks.run import run
from kit.config import load
from kit.errors import GateError, MissingError
from tests.standin import standin

ROOT = Path(__file__).parents[3]
# fault profile -> the check that must name it, and how gravely, for the production deployment
NAMED_BY = {
    "fault-gpu-lost": ("gpu.alive", "fail"),
    "fault-gpu-lost-later": ("gpu.alive", "fail"),
    "fault-mig-on-one": ("gpu.mig-off", "fail"),
    "fault-width-x8": ("link.slots", "warn"),
    "fault-slot-x8": ("link.slots", "warn"),
    "fault-foreign-process": ("gpu.memory-free", "fail"),
    "fault-row-remap-pending": ("gpu.healthy", "fail"),
    "fault-old-driver": ("gpu.driver-fits", "fail"),
    "fault-seven-of-eight": ("gpu.present", "fail"),
    "fault-odd-card": ("gpu.one-kind", "warn"),
}
WITHOUT_ENGINE = ["gpu", "link"]


@pytest.fixture
def production(tmp_path, monkeypatch):
    """The production kit.yaml in a folder of its own, on a machine with no Docker engine."""
    (tmp_path / "kit.yaml").write_text((ROOT / "kit.yaml").read_text())
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    return tmp_path / "kit.yaml"


def judged(file):
    from kit.checks.registry import chosen

    results = run(chosen(WITHOUT_ENGINE), Facts(load(file)))
    return {result.check.id: result.answer for result in results}


@pytest.mark.parametrize("name", [n for n in standin.names() if standin.load(n)["count"] == 8 and "fault" not in n])
def test_nothing_is_wrong_with_a_healthy_box_of_eight(name, machine, production):
    root = machine(name)
    (root / "dev").mkdir()
    (root / "dev/kmsg").write_text("")
    (root / "sys/class/iommu").mkdir(parents=True)
    answers = judged(production)
    assert {check: a for check, a in answers.items() if a.status in ("warn", "fail")} == {}


@pytest.mark.parametrize(("name", "check", "status"), [(n, *found) for n, found in NAMED_BY.items()])
def test_a_fault_is_named_by_its_check(name, check, status, machine, production):
    machine(name)
    answers = judged(production)
    assert answers[check].status == status
    assert answers[check].fix


def test_the_document_and_the_exit_code(machine, production, kit_json):
    machine("fault-mig-on-one")
    document, code = kit_json("doctor", "-f", str(production), "--select", "gpu,link")
    assert (code, document["schema"], document["verdict"]) == (3, "kit.doctor/1", "fail")
    assert all(set(item) == {"id", "family", "title", "status", "found", "want", "fix"} for item in document["checks"])
    mig = next(item for item in document["checks"] if item["id"] == "gpu.mig-off")
    assert (mig["status"], mig["found"]) == ("fail", "GPU 4: MIG is on")
    assert document["advice"]["env"]["NCCL_P2P_LEVEL"] == "SYS"
    kept = json.loads((production.parent / ".kit/kimi-k2-5/doctor/doctor.json").read_text())
    assert kept["checks"] == document["checks"]
    assert json.loads((production.parent / ".kit/kimi-k2-5/doctor/gpus.json").read_text())["schema"] == "kit.gpus/1"


def test_without_gpus_a_gpu_deployment_is_told_so_plainly(production, tmp_path, monkeypatch, kit_json):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    document, code = kit_json("doctor", "-f", str(production), "--select", "gpu")
    answers = {item["id"]: item for item in document["checks"]}
    assert code == 3
    assert answers["gpu.present"]["found"] == "this machine has no GPU that answers"
    assert {item["status"] for name, item in answers.items() if name not in ("gpu.present", "gpu.driver-answers")} == {
        "skip"
    }


def test_without_gpus_the_embedded_deployment_passes(production, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    embedded = tmp_path / "embedded.yaml"
    embedded.write_text((ROOT / "examples/embedded.yaml").read_text())
    assert {answer.status for answer in judged(embedded).values()} == {"skip"}


def test_accepted_advice_is_checked_against_the_box(machine, production, capsys):
    site = load(production)
    machine("epyc-8-switch-pairs")
    assert doctor(site, ["config.advice"], json=True, accept=True, call_limit_s=60) == 0
    assert accepted(site).env["NCCL_P2P_LEVEL"] == "SYS"
    machine("wrx90-8-three-switches")
    (result,) = run(["config.advice"], Facts(site))
    assert (result.answer.status, result.answer.found) == ("warn", "accepted for another set of cards or links")
    assert doctor(site, ["config.advice"], json=True, accept=False, call_limit_s=60) == 0
    assert accepted(site) is None


def test_an_unknown_check_is_a_wrong_usage(production):
    done = subprocess.run(
        [sys.executable, "-m", "kit", "doctor", "-f", str(production), "--select", "gpus"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "did you mean gpu?" in done.stderr) == (2, True)


def test_the_preflight_of_a_gpu_deployment_without_gpus_is_something_missing(production, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(MissingError) as missing:
        preflight(load(production), print, ignore=["config", "host", "docker", "image", "model", "drafter"])
    assert any("this machine has no GPU that answers" in line for line in missing.value.evidence)


def test_the_preflight_of_a_faulty_box_is_a_failed_gate(machine, production):
    machine("fault-mig-on-one")
    with pytest.raises(GateError) as failed:
        preflight(load(production), print, ignore=["config", "host", "docker", "image", "model", "drafter"])
    assert failed.value.evidence == [
        "gpu.mig-off: GPU 4: MIG is on (want: MIG off: tensor parallelism needs whole cards)"
    ]
    assert failed.value.hint == "sudo nvidia-smi -i 4 -mig 0 && sudo nvidia-smi --gpu-reset -i 4"


def test_the_preflight_of_a_sound_box_lets_it_start(machine, production):
    machine("epyc-8-switch-pairs")
    preflight(load(production), print, ignore=["config", "host", "docker", "image", "model", "drafter"])
