"""A drafter against its target: what starts healthy and is wrong must be found in its files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from kit.model import Use, judge_drafter, judge_target, read_folder
from kit.reference import DRAFTERS, drafters, write
from kit.reference.faults import FAULTS, write_fault
from tests.unit.model.synthetic import small_kimi, write_model

FOUND = {  # fault -> id of its finding; None: only acceptance can show it
    "late-layers": None,
    "early-layers": None,
    "duplicate-layers": "drafter-layers",
    "layer-out-of-range": "drafter-layers",
    "swapped-slots": None,
    "zero-fc": None,
    "missing-fc": "drafter-fc",
    "narrow-fc": "drafter-fc",
    "half-hidden-size": "drafter-hidden-size",
    "other-vocabulary": "drafter-vocabulary",
    "missing-d2t": "drafter-d2t",
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return write("kimi-k2.5", tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def target(reference):
    return judge_target(read_folder(reference.target))


def found(folder, target, **use):
    return {f.id: f for f in judge_drafter(read_folder(folder), target, Use(**use)).findings}


def changed(tmp_path, base="full", config=None, tensors=None):
    """A reference drafter with some keys of its config and some tensors replaced; None removes."""
    drafter = DRAFTERS[base]
    new_config, new_tensors = drafters.config(drafter), drafters.weights(drafter)
    for old, new in ((new_config, config or {}), (new_tensors, tensors or {})):
        old.update(new)
        for name in [name for name, value in new.items() if value is None]:
            del old[name]
    folder = tmp_path / "drafter"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(new_config))
    save_file(new_tensors, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("vllm", ["0.16.0", "0.32.0", None])
def test_reference_drafters_are_good(reference, target, name, vllm):
    assert found(reference.drafters[name], target, vllm=vllm) == {}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_that_files_can_show(tmp_path, target, name):
    ids = found(write_fault(name, tmp_path), target)
    if FOUND[name] is None:
        assert ids == {}
    else:
        assert ids[FOUND[name]].severity == "fail"


@pytest.mark.parametrize(
    ("d2t", "text"),
    [
        (np.zeros(127, np.int64), "[127]"),
        (np.zeros(128, np.float32), "F32"),
        (np.full(128, 100, np.int64), "outside"),
        (np.full(128, -1, np.int64), "outside"),
        (-np.arange(128, dtype=np.int64), "only 1 different"),
    ],
)
def test_values_of_d2t(tmp_path, target, d2t, text):
    assert text in found(changed(tmp_path, "reduced", tensors={"d2t": d2t}), target)["drafter-d2t"].found


def test_d2t_of_32_bits_is_as_good(tmp_path, target):
    d2t = drafters.weights(DRAFTERS["reduced"])["d2t"].astype(np.int32)
    assert found(changed(tmp_path, "reduced", tensors={"d2t": d2t}), target) == {}


def test_t2d_of_another_drafter(tmp_path, target):
    finding = found(changed(tmp_path, "reduced", tensors={"t2d": np.arange(136) >= 8}), target)["drafter-t2d"]
    assert finding.severity == "warn" and "8 of those" in finding.found


def test_layers_of_the_config_by_either_name(tmp_path, target):
    for config in (
        {"eagle_aux_hidden_state_layer_ids": [2, 4]},
        {"eagle_aux_hidden_state_layer_ids": [-1, 2, 4]},
        {"eagle_aux_hidden_state_layer_ids": [5, 4, 2]},
        {"eagle_aux_hidden_state_layer_ids": [2, 4, 8]},
        {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [3, 3, 3]}},
    ):
        assert list(found(changed(tmp_path, config=config), target)) == ["drafter-layers"], config
    config = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3]}}
    fc = np.zeros((256, 512), np.float32)
    assert found(changed(tmp_path, config=config, tensors={"fc.weight": fc}), target) == {}


def test_the_default_layers_of_a_shallow_target_fall_together(tmp_path, reference):
    config = json.loads((reference.target / "config.json").read_text())["text_config"]
    shallow = write_model(tmp_path / "shallow", {**config, "num_hidden_layers": 4}, {}, 1)
    finding = found(changed(tmp_path), judge_target(read_folder(shallow)))["drafter-layers"]
    assert "vLLM's default for a target of 4 layers is [2, 2, 1]" in finding.found


def test_a_drafter_without_states_needs_no_fc(tmp_path, target):
    folder = changed(tmp_path, config={"eagle_config": {"use_aux_hidden_state": False}}, tensors={"fc.weight": None})
    assert found(folder, target) == {}


@pytest.mark.parametrize(
    ("architecture", "vllm", "severity"),
    [
        ("Eagle3DeepseekV2ForCausalLM", "0.17.1", "fail"),
        ("Eagle3DeepseekV2ForCausalLM", "0.18.0", None),
        ("EagleLlamaForCausalLM", "0.32.0", "fail"),
        ("Eagle3LlamaForCausalLM", "0.16.0", None),
        ("MedusaModel", "0.32.0", "warn"),
    ],
)
def test_architectures(tmp_path, target, architecture, vllm, severity):
    ids = found(changed(tmp_path, config={"architectures": [architecture]}), target, vllm=vllm)
    assert (ids["drafter-architecture"].severity if ids else None) == severity


@pytest.mark.parametrize(
    ("config", "tensors", "vllm", "text"),
    [
        ({"norm_before_fc": True}, {}, None, "no input_norm.weight"),
        ({}, {"input_norm.weight": np.ones(768, np.float32)}, None, "would be left out"),
        ({"norm_before_fc": True}, {"input_norm.weight": np.ones(768, np.float32)}, "0.17.1", "does not read"),
        ({"norm_before_fc": True}, {"input_norm.weight": np.ones(768, np.float32)}, "0.18.0", None),
        ({"norm_output": True}, {}, "0.21.0", "does not read"),
        ({"norm_output": True}, {}, "0.22.0", None),
        ({"fc_norm": True}, {}, "0.32.0", "no fc_norm.weight"),
    ],
)
def test_norms(tmp_path, target, config, tensors, vllm, text):
    ids = found(changed(tmp_path, config=config, tensors=tensors), target, vllm=vllm)
    assert text is None if not ids else text in ids["drafter-norm"].found


def test_a_flag_that_is_no_flag(tmp_path, target):
    finding = found(changed(tmp_path, config={"norm_before_residual": "yes"}), target)["config-invalid"]
    assert "norm_before_residual is 'yes'" in finding.found


@pytest.mark.parametrize(
    ("vllm", "length", "warned"), [("0.16.0", 4096, True), ("0.16.0", 2048, False), ("0.27.0", 4096, False)]
)
def test_positions(tmp_path, target, vllm, length, warned):
    ids = found(changed(tmp_path), target, vllm=vllm, max_model_len=length)
    assert ("drafter-positions" in ids) == warned


@pytest.mark.parametrize(
    ("tensors", "finding"),
    [
        ({"midlayer.self_attn.q_proj.weight": np.zeros((256, 256), np.float32)}, "drafter-shape"),
        ({"midlayer.self_attn.o_proj.weight": None}, "drafter-tensor"),
        ({"lm_head.weight": np.zeros((100, 256), np.float32)}, "drafter-shape"),
        ({"norm.weight": np.ones(128, np.float32)}, "drafter-shape"),
        ({"embed_tokens.weight": None}, None),  # vLLM then takes the target's
    ],
)
def test_tensors(tmp_path, target, tensors, finding):
    assert list(found(changed(tmp_path, tensors=tensors), target)) == ([finding] if finding else [])


def test_a_drafter_in_the_speculators_format(tmp_path, target):
    plain = drafters.config(DRAFTERS["reduced"])
    layer = {key: value for key, value in plain.items() if key not in ("architectures", "draft_vocab_size")}
    config = {
        **dict.fromkeys(plain),
        "speculators_model_type": "eagle3",
        "transformer_layer_config": layer,
        "draft_vocab_size": 128,
    }
    assert found(changed(tmp_path, "reduced", config=config), target) == {}


def test_a_drafter_for_another_model(tmp_path, reference):
    target = judge_target(read_folder(small_kimi(tmp_path / "kimi")))
    ids = found(reference.drafters["full"], target)
    assert {"drafter-hidden-size", "drafter-vocabulary"} <= set(ids)


def test_a_drafter_that_is_not_there(tmp_path, target):
    assert list(found(tmp_path / "absent", target)) == ["model-folder"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "config.json").write_text(json.dumps(drafters.config(DRAFTERS["full"])))
    (tmp_path / "bin" / "pytorch_model.bin").write_bytes(b"x")
    assert list(found(tmp_path / "bin", target)) == ["weights-format"]
