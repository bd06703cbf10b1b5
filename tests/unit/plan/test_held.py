"""The plan's weights and KV tokens against what the ranks of real servers held (tests/data/plan/held.yaml)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kit.model import judge_drafter, judge_target, read_folder
from kit.model.architectures import ARCHITECTURES
from kit.model.config import read_config
from kit.plan.plan import make_plan
from kit.plan.setup import GIB, Setup
from kit.reference import configs, write
from tests.unit.model.synthetic import write_model

HELD = yaml.safe_load((Path(__file__).parents[2] / "data" / "plan" / "held.yaml").read_text())
FORMS = {"llama": configs.llama, "deepseek": configs.deepseek_v3}


def target_of(case, folder):
    """(target, drafter) of a case: a reference model, or one of zeros in the case's shapes."""
    if "reference" in case:
        written = write(case["reference"], folder, drafters=[case["drafter"]])
        target = judge_target(read_folder(written.target))
        return target, judge_drafter(read_folder(written.drafters[case["drafter"]]), target)
    form = next(form for form in FORMS if form in case)
    config = FORMS[form]() | case[form]
    prefix, modules = ARCHITECTURES[config["architectures"][0]]
    tensors = {f"{prefix}{name}.weight": ("BF16", shape) for name, shape in modules(read_config(config)[0].text)}
    return judge_target(read_folder(write_model(folder, config, tensors, 2))), None


@pytest.mark.parametrize("case", HELD, ids=lambda case: case["id"])
def test_bytes_on_each_rank(tmp_path, case):
    target, drafter = target_of(case, tmp_path / "model")
    assert not target.findings
    setup = Setup(card=None, count=1, tensor=case["tensor"], expert=case.get("expert", False))
    plan = make_plan(target, drafter, setup.but(dtype_bytes=4, mla=False, kv_bytes=GIB, max_model_len=512))
    text = target.config.text
    routed = max(0, text.num_hidden_layers - text.first_k_dense_replace) if text.num_experts else 0
    router = routed * (text.num_experts or 0) * text.hidden_size * 4
    assert plan.target.total == pytest.approx(case["bytes"] + router, rel=case.get("within", 1e-5))
    assert plan.tokens == case["tokens"]
    if drafter:
        assert plan.drafter.total == case["drafter_bytes"]
