"""A target's folder: whole, and with each fault that a download or a copy leaves behind."""

from __future__ import annotations

import json

import pytest

from kit.model import judge_target, read_folder
from kit.reference import write
from tests.unit.model.synthetic import (
    SMALL,
    kimi_config,
    kimi_tensors,
    small_kimi,
    write_model,
    write_shard,
)


def judged(folder):
    return judge_target(read_folder(folder))


def findings(folder):
    return {finding.id: finding for finding in judged(folder).findings}


def shards(folder):
    return sorted(folder.glob("*.safetensors"))


def edit_json(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


@pytest.fixture
def kimi(tmp_path):
    return small_kimi(tmp_path / "kimi")


def test_a_whole_model_has_no_findings(kimi):
    facts = judged(kimi)
    assert facts.findings == ()
    assert facts.config.architecture == "KimiK25ForConditionalGeneration"
    assert facts.config.quantization == "compressed-tensors"
    assert facts.config.multimodal and facts.config.text.mla
    assert facts.weights.nbytes == sum(t.nbytes for t in facts.weights.tensors.values())
    assert facts.weights.bytes_by_dtype.keys() == {"BF16", "I32", "F32"}


def test_groups_tell_kind_count_and_bytes(kimi):
    groups = {group.kind: group for group in judged(kimi).weights.groups}
    packed = groups["language_model.model.layers.#.mlp.experts.#.down_proj.weight_packed"]
    assert (packed.count, packed.tensor.shape, packed.nbytes) == (9, (128, 8), 9 * 128 * 8 * 4)


@pytest.mark.parametrize("form", ["kimi-k2.5", "deepseek-v3", "llama"])
def test_reference_targets_are_whole(tmp_path, form):
    facts = judged(write(form, tmp_path, drafters=[]).target)
    assert facts.findings == () and facts.config.quantization is None


def test_missing_shards_are_named_and_nothing_else(kimi):
    for path in shards(kimi)[1:3]:
        path.unlink()
    found = findings(kimi)
    assert list(found) == ["shard-missing"]
    assert "2 weight files" in found["shard-missing"].found
    assert "model-00002-of-00004.safetensors" in found["shard-missing"].found


def test_without_an_index_numbered_files_tell_what_is_missing(kimi):
    (kimi / "model.safetensors.index.json").unlink()
    assert findings(kimi) == {}
    shards(kimi)[3].unlink()
    assert "model-00004-of-00004.safetensors" in findings(kimi)["shard-missing"].found


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "shard-truncated"),
        (lambda path: path.write_bytes(path.read_bytes() + b"more"), "shard-too-long"),
        (lambda path: path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), "shard-lfs-pointer"),
        (lambda path: path.write_bytes(b"\0" * 1000), "shard-header"),
        (lambda path: (path.unlink(), path.symlink_to("nowhere")), "shard-missing"),
        (lambda path: (path.unlink(), path.mkdir()), "shard-not-a-file"),
    ],
)
def test_a_damaged_shard(kimi, damage, finding):
    damage(shards(kimi)[1])
    found = findings(kimi)
    assert list(found) == [finding] and found[finding].severity == "fail"
    assert "model-00002-of-00004" in found[finding].found


def test_a_tensor_that_the_index_promises(kimi):
    tensors = kimi_tensors(kimi_config(**SMALL))
    names = list(tensors)
    part = names[: len(names) // 4]
    write_shard(shards(kimi)[0], {name: tensors[name] for name in part[:-1]})
    found = findings(kimi)["tensor-missing"]
    assert found.severity == "fail" and part[-1] in found.found


def test_a_tensor_twice(kimi):
    tensors = kimi_tensors(kimi_config(**SMALL))
    name = "language_model.model.norm.weight"
    last = {n: tensors[n] for n in list(tensors)[3 * len(tensors) // 4 :]}
    write_shard(shards(kimi)[3], {**last, name: tensors[name]})
    assert name in findings(kimi)["tensor-duplicate"].found


def test_the_index_of_another_version(kimi):
    index = kimi / "model.safetensors.index.json"
    name = "language_model.model.norm.weight"
    edit_json(index, lambda value: value["weight_map"].pop(name))
    edit_json(index, lambda value: value["metadata"].update(total_size=5))
    found = findings(kimi)
    assert name in found["tensor-unlisted"].found and found["tensor-unlisted"].severity == "warn"
    assert "says 5 bytes" in found["index-size"].found


def test_a_stray_shard_is_only_a_warning(kimi):
    write_shard(kimi / "old.safetensors", {"x": ("F32", (1,))})
    facts = judged(kimi)
    assert [finding.id for finding in facts.findings] == ["shard-unlisted"] and not facts.failed
    assert "x" not in facts.weights.tensors
    (kimi / "old.safetensors").rename(kimi / "consolidated.safetensors")
    assert judged(kimi).findings == ()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"weight_map": []}', '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "../../etc/passwd"}}'],
)
def test_an_index_that_is_none(kimi, text):
    (kimi / "model.safetensors.index.json").write_text(text)
    assert "index-invalid" in findings(kimi)


def test_what_the_config_promises(tmp_path):
    config = kimi_config(**SMALL)
    tensors = kimi_tensors(config)
    lost = [name for name in tensors if ".layers.2.mlp.experts.1." in name]
    less = {name: value for name, value in tensors.items() if name not in lost}
    found = findings(write_model(tmp_path / "less", config, less, 2))["tensor-missing"]
    assert "3 modules" in found.found and "layers.2.mlp.experts.1.gate_proj" in found.found

    found = findings(write_model(tmp_path / "wide", kimi_config(**SMALL, vocab_size=1000), tensors, 2))["tensor-shape"]
    assert "embed_tokens is [163840, 128], not [1000, 128]" in found.found


def test_a_packed_weight_without_its_scale(tmp_path):
    config = kimi_config(**SMALL)
    tensors = kimi_tensors(config)
    del tensors["language_model.model.layers.1.mlp.experts.0.up_proj.weight_scale"]
    found = findings(write_model(tmp_path, config, tensors, 2))["tensor-missing"]
    assert found.found.endswith("language_model.model.layers.1.mlp.experts.0.up_proj without weight_scale")


def test_nvfp4_whose_weights_are_packed_and_whose_names_leave_out_the_model(tmp_path):
    config = {**kimi_config(**SMALL), "quantization_config": {"quant_method": "modelopt"}}
    tensors = {}
    for name, (dtype, shape) in kimi_tensors(config).items():
        module = name.replace("language_model.model.layers.", "language_model.layers.").rpartition(".")[0]
        if name.endswith("weight_packed"):
            rows, columns = shape[0], shape[1] * 8
            tensors[f"{module}.weight"] = ("U8", (rows, columns // 2))
            tensors[f"{module}.weight_scale"] = ("F8_E4M3", (rows, columns // 16))
            tensors[f"{module}.weight_scale_2"] = ("F32", ())
        elif not name.endswith(("weight_scale", "weight_shape")):
            tensors[name.replace("language_model.model.layers.", "language_model.layers.")] = (dtype, shape)
    folder = write_model(tmp_path, config, tensors, 2)
    assert findings(folder) == {}


def test_an_unknown_architecture_is_judged_by_its_layers(tmp_path):
    config = {"architectures": ["SomethingNew"], "num_hidden_layers": 4}
    tensors = {f"model.layers.{layer}.mixer.weight": ("F32", (2,)) for layer in (0, 1, 3)}
    found = findings(write_model(tmp_path, config, tensors, 1))
    assert list(found) == ["tensor-missing"] and found["tensor-missing"].found == "layers without any weights: 2"


def test_quantized_weights_need_their_config(kimi):
    edit_json(kimi / "config.json", lambda value: value.pop("quantization_config"))
    assert "does not say how" in findings(kimi)["quantization"].found


def test_a_quantized_config_needs_quantized_weights(tmp_path):
    target = write("llama", tmp_path, drafters=[]).target
    edit_json(target / "config.json", lambda value: value.update(quantization_config={"quant_method": "fp8"}))
    assert "no tensor is quantized" in findings(target)["quantization"].found


@pytest.mark.parametrize("text", ["", '{"a"', "[1]", "\ufeff{}", "9" * 9000, "[" * 100_000])
def test_a_config_that_is_none(kimi, text):
    (kimi / "config.json").write_text(text)
    assert findings(kimi)["config-missing"].severity == "fail"


def test_values_of_a_wrong_kind_are_named_and_left_out(kimi):
    edit_json(kimi / "config.json", lambda value: value["text_config"].update(hidden_size="big", vocab_size=-1))
    facts = judged(kimi)
    texts = [finding.found for finding in facts.findings if finding.id == "config-invalid"]
    assert texts == ["config.json: hidden_size is 'big'", "config.json: vocab_size is '-1'"]
    assert facts.config.text.hidden_size is None and facts.config.text.num_hidden_layers == 4


def test_a_config_without_an_architecture(tmp_path):
    found = findings(write_model(tmp_path, {}, {"a": ("F32", (1,))}, 1))
    assert "names no architecture" in found["config-invalid"].found


def test_no_folder_no_weights_other_formats(tmp_path):
    assert list(findings(tmp_path / "absent")) == ["model-folder"]
    (tmp_path / "file").write_text("")
    assert list(findings(tmp_path / "file")) == ["model-folder"]
    (tmp_path / "empty").mkdir()
    assert list(findings(tmp_path / "empty")) == ["config-missing", "weights-missing"]
    (tmp_path / "empty" / "pytorch_model.bin").write_bytes(b"x")
    assert findings(tmp_path / "empty")["weights-format"].severity == "warn"
