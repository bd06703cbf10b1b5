"""The families model and drafter: each fault of a model's files comes out of the check that it belongs to."""

from __future__ import annotations

from collections import Counter

import pytest

from kit.checks import drafter, model
from kit.checks.facts import Facts
from kit.checks.registry import checks, chosen
from kit.checks.run import run
from kit.config import Deployment, Kit
from kit.errors import MissingError
from kit.model.findings import FINDINGS
from kit.plan.setup import GIB, Card
from kit.reference import write
from kit.reference.faults import write_fault

FAMILIES = ["model", "drafter"]


def site(tmp_path, **parts):
    base = {
        "name": "box",
        "engine": {"vllm": "0.32.0", "device": "cpu", "env": {"VLLM_MLA_DISABLE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}},
        "model": {"reference": "kimi-k2.5", "served_name": "x", "max_model_len": 512, "dtype": "float32"},
        "speculative": {"drafter": {"reference": "aux"}},
    }
    return Deployment(Kit.model_validate({**base, **parts}), tmp_path / "kit.yaml", {})


def judged(deployment, facts=None):
    results = run(chosen(FAMILIES), facts or Facts(deployment))
    return {result.check.id: result.answer for result in results}


def troubles(answers):
    return {check: answer.status for check, answer in answers.items() if answer.status in ("warn", "fail")}


def on_gpus(tmp_path, **parts):
    return site(
        tmp_path,
        **{"engine": {"vllm": "0.16.0"}, "gpus": {"count": 1, "name": "NVIDIA RTX PRO 6000 Blackwell"}, **parts},
    )


class OnThisCard(Facts):
    """Facts of a machine whose cards cannot be asked: the plan takes the card that kit.yaml names."""

    gpus = None


def test_every_finding_belongs_to_one_check_of_each_role():
    for module in (model, drafter):
        kinds = [kind for kind in checks().values() if kind.__module__ == module.__name__]
        counts = Counter(name for kind in kinds for name in getattr(kind, "ids", ()))
        assert {name for name, count in counts.items() if count > 1} == set()
    covered = {name for kind in checks().values() for name in getattr(kind, "ids", ())}
    assert set(FINDINGS) <= covered


def test_the_embedded_deployment_passes(tmp_path):
    answers = judged(site(tmp_path))
    assert set(answers) == set(chosen(FAMILIES))
    assert {answer.status for answer in answers.values()} == {"pass"}
    assert "30,720 tokens: 60.0 requests of 512" in answers["model.memory"].found


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("missing-d2t", "drafter.vocabulary"),
        ("missing-fc", "drafter.states"),
        ("narrow-fc", "drafter.states"),
        ("duplicate-layers", "drafter.states"),
        ("half-hidden-size", "drafter.target"),
        ("other-vocabulary", "drafter.target"),
    ],
)
def test_drafter_faults(tmp_path, fault, check):
    folder = write_fault(fault, tmp_path / "faults")
    answers = judged(site(tmp_path, speculative={"drafter": {"path": str(folder)}}))
    assert troubles(answers)[check] == "fail"
    assert not any(name.startswith("model.") for name in troubles(answers))
    assert answers[check].fix


def test_a_truncated_target_fails_once_and_its_followers_are_skipped(tmp_path):
    target = write("llama", tmp_path / "ref", drafters=[]).target
    weights = target / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    parts = {"model": {"path": str(target), "served_name": "x"}, "speculative": None}
    answers = judged(site(tmp_path, **parts))
    assert troubles(answers) == {"model.files": "fail"}
    assert answers["model.files"].found.startswith("1 weight file: model.safetensors (")
    assert "1,000 lost" in answers["model.files"].found
    assert answers["model.memory"].status == "skip"
    assert (
        answers["drafter.fc" if "drafter.fc" in answers else "drafter.states"].found
        == "this deployment does not speculate"
    )


def test_no_model_at_all(tmp_path):
    answers = judged(site(tmp_path, model={"path": "absent", "served_name": "x"}))
    assert troubles(answers) == {"model.there": "fail"}
    assert "No such file" in answers["model.there"].found


def test_the_three_incompatibilities_are_mended_by_patches_or_named(tmp_path):
    deployment = on_gpus(tmp_path)
    answers = judged(deployment, OnThisCard(deployment))
    assert answers["model.supported"].status == "pass"
    assert "kimi-k25-eagle3" in answers["model.supported"].found

    bare = on_gpus(tmp_path, engine={"vllm": "0.16.0", "patches": []})
    answer = judged(bare, OnThisCard(bare))["model.supported"]
    assert answer.status == "fail"
    for text in ("image_token_index", "Eagle3 is only supported", "does not support EAGLE3 interface"):
        assert text in answer.found
    assert "engine.patches" in answer.fix

    later = on_gpus(tmp_path, engine={"vllm": "0.18.0", "patches": []})
    assert judged(later, OnThisCard(later))["model.supported"].status == "pass"


def test_an_image_from_elsewhere_may_lack_the_patches(tmp_path):
    deployment = on_gpus(tmp_path, engine={"vllm": "0.16.0", "existing": "some/image:1"})
    assert judged(deployment, OnThisCard(deployment))["model.supported"].status == "warn"


def test_what_the_cpu_cannot_do(tmp_path):
    old = judged(site(tmp_path, engine={"vllm": "0.16.0", "device": "cpu"}))
    assert "does not speculate" in old["drafter.device"].found
    mla = judged(site(tmp_path, engine={"vllm": "0.32.0", "device": "cpu"}))
    assert "VLLM_MLA_DISABLE" in mla["drafter.device"].fix


def test_a_card_too_small_and_a_layout_that_does_not_divide(tmp_path, monkeypatch):
    monkeypatch.setattr("kit.plan.from_deployment.card_of", lambda *_: (Card("tiny", GIB), ""))
    deployment = on_gpus(tmp_path, gpus={"count": 1, "memory_utilization": 0.3})
    assert troubles(judged(deployment, OnThisCard(deployment))) == {"model.memory": "fail"}
    odd = on_gpus(tmp_path, gpus={"count": 3}, parallel={"tensor": 3})
    assert judged(odd, OnThisCard(odd))["model.layout"].status == "fail"


def test_a_context_beyond_the_positions(tmp_path):
    parts = {"model": {"reference": "llama", "served_name": "x", "max_model_len": 4096, "dtype": "float32"}}
    answers = judged(site(tmp_path, **parts))
    assert troubles(answers) == {"model.context": "fail"}


def test_no_card_to_plan_for(tmp_path):
    deployment = on_gpus(tmp_path, gpus={"count": 1, "name": "NVIDIA Unheard-of"})
    facts = OnThisCard(deployment)
    with pytest.raises(MissingError, match="none that is known"):
        _ = facts.plan
    answers = judged(deployment, facts)
    assert "kit plan --card-memory" in answers["model.layout"].fix
