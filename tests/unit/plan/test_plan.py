"""The plan as a whole: what fits, what does not, and what would."""

from __future__ import annotations

import pytest

from kit.model import judge_drafter, judge_target, read_folder
from kit.plan.plan import alternatives, cards_needed, make_plan
from kit.plan.setup import GIB, Card, Setup
from kit.reference import write
from tests.unit.model.synthetic import kimi_config, kimi_tensors, write_model

RTX = Card("NVIDIA RTX PRO 6000 Blackwell", 97251 << 20)


@pytest.fixture(scope="module")
def kimi(tmp_path_factory):
    """Kimi-K2.5 in full width and depth, 48 of its 384 experts: 83 GB."""
    config = kimi_config(n_routed_experts=48)
    return judge_target(read_folder(write_model(tmp_path_factory.mktemp("kimi"), config, kimi_tensors(config), 4)))


def setup(**changes):
    return Setup(card=RTX, count=8, tensor=8, max_num_seqs=32, max_model_len=131072, vllm="0.16.0").but(**changes)


def ids(plan):
    return [finding.id for finding in plan.findings]


def test_weights_of_kimi_are_counted_by_how_they_are_shared(kimi):
    plan = make_plan(kimi, None, setup())
    expert = 3 * 7168 * 2048 * (0.5 + 2 / 32)  # 4 bits, and a bfloat16 scale for every 32
    assert plan.target.experts == pytest.approx(60 * 48 * expert / 8, rel=1e-6)
    whole = 61 * (1536 * 7168 + 576 * 7168 + 2 * 7168 + 1536 + 512) + 60 * 48 * 7168 + 7168
    assert plan.target.whole == 2 * whole + 60 * 48 * 4
    attention = 64 * 192 * 1536 + 64 * 256 * 512 + 7168 * 64 * 128
    split = 61 * attention + 60 * 3 * 7168 * 2048 + 3 * 7168 * 18432 + 2 * 163840 * 7168
    assert plan.target.split == pytest.approx(2 * split / 8, rel=1e-6)
    assert plan.absorbed == 61 * 8 * 256 * 512 * 2
    assert plan.kv_per_token == 61 * 576 * 2


def test_cards_with_less_memory_than_weights(kimi):
    small = setup(card=Card("small", 12 * GIB), utilization=0.8, max_model_len=8192)
    plan = make_plan(kimi, None, small)
    assert ids(plan) == ["weights-too-large"] and plan.tokens == 0 and plan.longest == 0
    assert plan.kv_memory < 0
    assert alternatives(kimi, None, small) == []
    assert cards_needed(kimi, None, small) == 16
    assert make_plan(kimi, None, small.but(tensor=16, count=16)).fits


def test_a_context_too_long_is_answered_with_the_nearest_that_fits(kimi):
    tight = setup(card=Card("tight", 24 * GIB))
    plan = make_plan(kimi, None, tight)
    assert ids(plan) == ["kv-cache-too-small"]
    assert plan.findings[0].fix == f"model.max_model_len: {plan.longest}"
    options = alternatives(kimi, None, tight)
    assert options and all(other.fits for _, other in options)
    assert all(len(keys) == 1 for keys, _ in options)
    assert {"model.max_model_len": "65536"} in [keys for keys, _ in options]


def test_a_share_that_leaves_no_room_for_context_and_nccl(kimi):
    plan = make_plan(kimi, None, setup(utilization=0.999))
    assert ids(plan) == ["utilization-too-high"]
    most = float(plan.findings[0].fix.rpartition(" ")[2])
    assert make_plan(kimi, None, setup(utilization=most)).fits


def test_no_context_beyond_the_models_positions(kimi):
    assert ids(make_plan(kimi, None, setup(max_model_len=262145))) == ["context-too-long"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"tensor": 7}, "64 attention heads of the target over 7 ranks"),
        ({"tensor": 16}, "16 ranks for 8 cards"),
        ({"tensor": 4, "expert": True, "count": 4}, None),
    ],
)
def test_what_does_not_divide(kimi, changes, text):
    found = [finding.found for finding in make_plan(kimi, None, setup(**changes)).findings]
    assert (text is None and not found) or any(text in line for line in found)


def test_a_layout_that_does_not_divide_is_answered_with_one_that_does(kimi):
    assert {"parallel.tensor": "8"} in [keys for keys, _ in alternatives(kimi, None, setup(tensor=6))]


def test_expert_parallelism_keeps_whole_experts(kimi):
    split, whole = make_plan(kimi, None, setup(tensor=5)), make_plan(kimi, None, setup(tensor=5, expert=True))
    assert whole.target.experts / split.target.experts == pytest.approx(10 / 9.6)


def test_the_fp8_cache_holds_twice_as_much(kimi):
    assert make_plan(kimi, None, setup(kv_dtype_bytes=1)).kv_per_token == 61 * 576


def test_graphs_are_taken_from_the_share_from_0_20_on(kimi):
    old, new = make_plan(kimi, None, setup()), make_plan(kimi, None, setup(vllm="0.20.0"))
    graphs = next(item.nbytes for item in new.allowances if item.name == "CUDA graphs")
    assert old.kv_memory - new.kv_memory == graphs
    assert make_plan(kimi, None, setup(vllm="0.20.0", eager=True)).kv_memory == old.kv_memory


def test_pipeline_and_drafter_do_not_go_together(tmp_path):
    reference = write("deepseek-v3", tmp_path, drafters=["aux"])
    target = judge_target(read_folder(reference.target))
    drafter = judge_drafter(read_folder(reference.drafters["aux"]), target)
    plan = make_plan(target, drafter, setup(tensor=1, pipeline=2, max_model_len=512))
    assert "auxiliary states" in plan.findings[0].found
    wide = make_plan(target, drafter, setup(tensor=4, max_model_len=512))
    assert "2 attention heads of the drafter over 4 ranks" in wide.findings[0].found


def test_layers_for_multi_token_prediction_are_not_loaded(tmp_path):
    config = kimi_config(n_routed_experts=2, num_hidden_layers=2, hidden_size=256, moe_intermediate_size=64)
    tensors = kimi_tensors(config)
    without = make_plan(
        judge_target(read_folder(write_model(tmp_path / "a", config, tensors, 1))), None, setup(tensor=1)
    )
    extra = {**tensors, "language_model.model.layers.2.eh_proj.weight": ("BF16", (512, 512))}
    with_one = make_plan(
        judge_target(read_folder(write_model(tmp_path / "b", config, extra, 1))), None, setup(tensor=1)
    )
    assert with_one.target == without.target


def test_every_number_of_a_plan_is_explained(kimi):
    text = " ".join(make_plan(kimi, None, setup()).assumptions)
    for word in ("vocabulary", "MLA", "vision", "activations", "CUDA context", "CUDA graphs", "NCCL"):
        assert word in text
