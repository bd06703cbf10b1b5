"""Files on disk: the same bytes everywhere, written whole, not written twice."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from kit.errors import MissingError, UsageError
from kit.reference import write
from kit.reference.store import all_models, contents, digests
from kit.reference.targets import kimi_k25
from kit.reference.tensors import noise, safetensors_bytes, sha256


@pytest.mark.parametrize("model", all_models())
def test_bytes_are_the_ones_proven_on_servers(model):
    assert {name: sha256(data) for name, data in contents(model).items()} == digests()[model]


def test_everything_fits_60_megabytes():
    total = sum(len(data) for model in all_models() if "+" not in model for data in contents(model).values())
    assert total < 60e6


def test_noise_is_exact_and_depends_on_its_name_alone():
    found = noise("a", 2, 3)
    assert found.tolist() == noise("a", 6).reshape(2, 3).tolist()
    assert not np.array_equal(found, noise("b", 2, 3))
    many = noise("many", 100_000).astype(np.float64)
    assert abs(many.mean()) < 5e-4 and np.abs(many).max() < 2**-5
    assert many.std() == pytest.approx(2**-5 / np.sqrt(3), rel=0.01)


def test_the_safetensors_library_reads_what_we_write(tmp_path):
    tensors = {"b": np.arange(6, dtype=np.int64).reshape(2, 3), "a": np.ones(3, np.float16), "c": np.array([True])}
    (tmp_path / "x.safetensors").write_bytes(safetensors_bytes(tensors))
    read = load_file(tmp_path / "x.safetensors")
    assert {name: value.tolist() for name, value in read.items()} == {n: v.tolist() for n, v in tensors.items()}
    assert {name: value.dtype for name, value in read.items()} == {n: v.dtype for n, v in tensors.items()}


def stamps(folder: Path):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def test_second_write_touches_nothing_and_damage_is_mended(tmp_path):
    made = write("llama", tmp_path, drafters=["full"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "drafters", "llama"]
    before = stamps(tmp_path)
    assert write("llama", tmp_path, drafters=["full"]) == made
    assert stamps(tmp_path) == before

    weights = made.drafters["full"] / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    (made.target / "stray.bin").write_bytes(b"1")
    write("llama", tmp_path, drafters=["full"])
    assert sha256(weights.read_bytes()) == digests()["drafters/full"]["model.safetensors"]
    assert not (made.target / "stray.bin").exists()
    assert [path.name for path in (tmp_path / "drafters").iterdir()] == ["full"]


def test_a_file_in_the_way_is_replaced_and_a_link_is_not_followed(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "keep").write_text("mine")
    (tmp_path / "ref" / "drafters").mkdir(parents=True)
    (tmp_path / "ref" / "llama").symlink_to(other)
    (tmp_path / "ref" / "drafters" / "full").write_text("a file")
    made = write("llama", tmp_path / "ref", drafters=["full"])
    assert not made.target.is_symlink() and (made.target / "config.json").exists()
    assert [path.name for path in other.iterdir()] == ["keep"]
    assert made.drafters["full"].is_dir()


def test_two_at_once(tmp_path):
    threads = [threading.Thread(target=write, args=("llama", tmp_path)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sha256((tmp_path / "llama" / "model.safetensors").read_bytes()) == digests()["llama"]["model.safetensors"]


def test_kimi_brings_an_image_processor_where_vllm_has_none(tmp_path):
    old = write("kimi-k2.5", tmp_path, vllm="0.16.0", drafters=[]).target
    new = write("kimi-k2.5", tmp_path, vllm="0.32.0", drafters=[]).target
    module, _, name = json.loads((old / "preprocessor_config.json").read_text())["auto_map"][
        "AutoImageProcessor"
    ].partition(".")
    assert f"class {name}(" in (old / f"{module}.py").read_text()
    compile((old / f"{module}.py").read_text(), module, "exec")
    assert "auto_map" not in json.loads((new / "preprocessor_config.json").read_text())
    assert write("llama", tmp_path, vllm="0.16.0", drafters=[]).target.name == "llama"


def test_kimi_holds_the_deepseek_weights_under_its_prefix():
    inner = json.loads(contents("deepseek-v3")["config.json"])
    outer = json.loads(contents("kimi-k2.5")["config.json"])
    assert outer["text_config"] == inner | {"model_type": "kimi_k2"}
    prefixes = {name.split(".")[0] for name in kimi_k25()}
    assert prefixes == {"language_model", "vision_tower", "mm_projector"}


@pytest.mark.parametrize("arguments", [{"form": "gpt"}, {"form": "llama", "drafters": ["../x"]}])
def test_unknown_names_are_refused_before_anything_is_written(tmp_path, arguments):
    with pytest.raises(UsageError, match="is called"):
        write(folder=tmp_path / "new", **arguments)
    assert not (tmp_path / "new").exists()


def test_a_version_that_is_none_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no version"):
        write("kimi-k2.5", tmp_path / "new", vllm="newest")


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingError, match="cannot write"):
        write("llama", tmp_path / "file" / "below")
