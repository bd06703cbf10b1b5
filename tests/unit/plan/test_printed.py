"""The plan against what vLLM printed on real servers, each within 5 % (tests/data/plan/printed.yaml says which)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kit.model.config import TextConfig
from kit.plan.kv_cache import block_tokens, bytes_per_token, tokens_that_fit
from kit.plan.setup import GIB, Card, Setup

DATA = Path(__file__).parents[2] / "data" / "plan"
PRINTED = yaml.safe_load((DATA / "printed.yaml").read_text())


@pytest.mark.parametrize("case", PRINTED, ids=lambda case: case["id"])
def test_kv_tokens(case):
    config, setup = TextConfig.model_validate(case["config"]), Setup(card=None, count=1, tensor=case["tensor"])
    setup = setup.but(dtype_bytes=case["dtype_bytes"], mla=case.get("mla", True))
    if case["device"] == "cuda":
        setup = setup.but(card=Card("H200", 139 * GIB))
    per_token = bytes_per_token(config, setup)
    if "drafter" in case:
        per_token += bytes_per_token(TextConfig.model_validate(case["drafter"]), setup, drafter=True)
    tokens = tokens_that_fit(int(case["kv_gib"] * GIB), per_token, block_tokens(config, setup))
    assert tokens == pytest.approx(case["tokens"], rel=0.05 if case["device"] == "cuda" else 1e-9)
