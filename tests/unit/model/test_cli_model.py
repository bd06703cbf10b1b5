"""`kit model`, `kit plan` and `kit reference` as processes: what they print, and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.reference import write
from kit.reference.faults import write_fault

ROOT = Path(__file__).parents[3]


@pytest.fixture
def kit(tmp_path):
    def run(*args):
        env = {k: v for k, v in os.environ.items() if not k.startswith("KIT_")}
        env |= {"PYTHONPATH": str(ROOT), "KIT_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "kit", *map(str, args)]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    return run


@pytest.fixture
def embedded(tmp_path):
    (tmp_path / "kit.yaml").write_text((ROOT / "examples" / "embedded.yaml").read_text())
    return tmp_path / "kit.yaml"


def test_model_show(kit, tmp_path):
    reference = write("kimi-k2.5", tmp_path / "ref", drafters=["reduced"])
    done = kit("model", "show", reference.target, "--drafter", reference.drafters["reduced"])
    assert done.returncode == 0 and "KimiK25ForConditionalGeneration" in done.stdout
    bad = write_fault("missing-d2t", tmp_path)
    done = kit("model", "show", reference.target, "--drafter", bad, "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["schema"], told["verdict"]) == (3, "kit.model/1", "fail")
    assert [finding["id"] for finding in told["drafter"]["findings"]] == ["drafter-d2t"]
    assert told["target"]["findings"] == [] and told["target"]["bytes"] == 16_621_168


def test_model_show_of_the_deployment_writes_its_reference_models_first(kit, embedded):
    done = kit("model", "show", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["drafter"]["name"] == "aux"


def test_hostile_names_reach_the_terminal_harmless(kit, tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["\\u001b[31mred"], "hidden_size": "\\u202eevil"}')
    done = kit("model", "show", folder)
    assert done.returncode == 3
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout and "\\x1b[31mred" in done.stdout


def test_model_manifest_and_verify(kit, tmp_path):
    target = write("llama", tmp_path / "ref", drafters=[]).target
    assert kit("model", "manifest", target, "-o", "m.json").returncode == 0
    assert kit("model", "verify", target, "-m", "m.json").returncode == 0
    weights = target / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    done = kit("model", "verify", target, "-m", "m.json", "--json")
    assert done.returncode == 6 and "next:  fetch these files again" in done.stderr
    told = json.loads(done.stdout)
    assert [(row["name"], row["kind"]) for row in told["differences"]] == [("model.safetensors", "hash")]
    assert kit("model", "verify", target, "-m", "none.json").returncode == 5


def test_plan(kit, embedded):
    told = json.loads(kit("plan", "--json").stdout)
    assert (told["schema"], told["verdict"], told["kv_tokens"]) == ("kit.plan/1", "pass", 30720)
    assert told["per_rank_bytes"]["kv_per_token"] == 34816 and told["assumptions"]
    shallow = kit("plan", "--set", "model.max_model_len=2048", "--set", 'engine.env.VLLM_CPU_KVCACHE_SPACE="0.01"')
    assert shallow.returncode == 3 and "kv-cache-too-small" in shallow.stdout


def test_plan_needs_a_card(kit, embedded):
    cuda = ["--set", "engine.device=cuda", "--set", "gpus.count=1"]
    named = kit("plan", *cuda, "--set", "gpus.name=NVIDIA RTX PRO 6000 Blackwell", "--json")
    assert json.loads(named.stdout)["card"]["bytes"] == int(97887 * (1 - 0.0065)) << 20
    given = kit("plan", *cuda, "--card-memory", "24GiB", "--json")
    assert json.loads(given.stdout)["card"]["bytes"] == 24 << 30
    assert kit("plan", *cuda, "--card-memory", "big").returncode == 2


def test_plan_of_a_model_that_is_not_there(kit, embedded):
    paths = [
        "model.path=absent",
        "model.reference=null",
        "speculative.drafter.path=x",
        "speculative.drafter.reference=null",
    ]
    done = kit("plan", *(word for path in paths for word in ("--set", path)))
    assert done.returncode == 3 and "next:  kit model show" in done.stderr


def test_reference(kit, tmp_path):
    done = kit("reference", "write", "r", "--form", "llama", "--drafter", "full", "--json")
    told = json.loads(done.stdout)
    assert told == {
        "schema": "kit.reference/1",
        "targets": {"llama": "r/llama"},
        "drafters": {"full": "r/drafters/full"},
    }
    assert (tmp_path / "r/llama/config.json").exists()
    told = json.loads(kit("reference", "predict", "--drafter", "half", "--json").stdout)
    assert (told["num_drafts"], told["num_accepted_tokens"]) == (50, 49)
    assert json.loads(kit("reference", "list", "--json").stdout)["drafters"]["never"]["acceptance_rate"] == 0
    assert kit("reference", "predict", "--drafter", "x").returncode == 2
