"""The small deployment that stands for a large one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kit.config import Kit, load
from kit.errors import UsageError
from kit.patches import catalog
from kit.rehearse.prove import cpu_recipe
from kit.rehearse.twin import WATCHER, cpu_twin, form_for, gpu_twin, recipe_for, with_files

TOP = Path(__file__).parents[3] / "kit.yaml"


def production() -> Kit:
    return load(TOP, []).kit


def loaded(folder: Path, values: dict[str, Any]) -> Kit:
    (folder / "kit.yaml").write_text(yaml.safe_dump(values))
    return load(folder / "kit.yaml", []).kit


def test_what_is_the_same_and_what_is_small(tmp_path: Path) -> None:
    big = production()
    small = loaded(tmp_path, cpu_twin(big, "kimi-k2.5", "vllm-cpu-rehearsal", port=1234, watcher=tmp_path))
    assert small.engine.vllm == big.engine.vllm and small.engine.patches == big.engine.patches
    assert small.model.served_name == big.model.served_name
    assert small.speculative is not None and big.speculative is not None
    assert small.speculative.method == big.speculative.method
    assert small.speculative.num_speculative_tokens == big.speculative.num_speculative_tokens == 5
    assert (small.model.reference, small.speculative.drafter.reference) == ("kimi-k2.5", "aux")
    assert (small.engine.device, small.engine.image, small.gpus.count) == ("cpu", "vllm-cpu-rehearsal", 0)
    assert (small.server.host, small.server.port) == ("127.0.0.1", 1234)
    assert small.limits.restarts == 0
    assert [mount.target for mount in small.mounts] == [WATCHER]
    assert small.name == "kimi-k2-5-rehearsal"


def test_a_long_name_stays_a_name(tmp_path: Path) -> None:
    big = production().model_copy(update={"name": "a" * 29 + "-" + "b" * 10})
    assert (
        loaded(tmp_path, cpu_twin(big, "llama", "vllm-cpu", port=1, watcher=tmp_path)).name == "a" * 29 + "-rehearsal"
    )


def test_files_laid_over_go_around_the_entry_point_and_hide_bytecode(tmp_path: Path) -> None:
    values = cpu_twin(production(), "kimi-k2.5", "vllm-cpu-rehearsal", port=1, watcher=tmp_path)
    (tmp_path / "hidden").mkdir()
    files = {"vllm/config/speculative.py": tmp_path / "0.py", "vllm/v1/spec_decode/eagle.py": tmp_path / "1.py"}
    kit = loaded(tmp_path, with_files(values, "img:1", "/s", files))
    assert (kit.engine.existing, kit.engine.image) == ("img:1", None)
    assert {(m.target, Path(m.source).name, m.read_only) for m in kit.mounts} == {
        ("/s/vllm/config/speculative.py", "0.py", True),
        ("/s/vllm/v1/spec_decode/eagle.py", "1.py", True),
        ("/s/vllm/config/__pycache__", "hidden", True),
        ("/s/vllm/v1/spec_decode/__pycache__", "hidden", True),
        (WATCHER, tmp_path.name, True),
    }


@pytest.mark.parametrize(
    ("model_type", "form"), [("kimi_k25", "kimi-k2.5"), ("deepseek_v3", "deepseek-v3"), ("llama", "llama")]
)
def test_the_form_of_a_target(model_type: str, form: str) -> None:
    assert form_for(production(), model_type) == form


def test_a_target_that_no_form_is_like() -> None:
    with pytest.raises(UsageError, match="a target of type 'mamba'"):
        form_for(production(), "mamba")
    with pytest.raises(UsageError, match=r"/models/Kimi-K2\.5, which is not on this machine") as failed:
        form_for(production(), None)
    assert failed.value.hint == "kit rehearse --form kimi-k2.5|deepseek-v3|llama"


def test_without_speculation_there_is_nothing_to_rehearse() -> None:
    with pytest.raises(UsageError, match="nothing to rehearse"):
        gpu_twin(production().model_copy(update={"speculative": None}), "llama", port=1)


def test_on_a_gpu_it_is_the_production_image_as_production_runs_it(tmp_path: Path) -> None:
    big = production()
    small = loaded(tmp_path, gpu_twin(big, "kimi-k2.5", port=1234))
    same = {"vllm", "device", "image", "patches", "env", "args", "enforce_eager"}
    assert small.engine.model_dump(include=same) == big.engine.model_dump(include=same)
    assert (small.gpus.count, small.gpus.devices, small.parallel.tensor) == (1, ["0"], 1)
    assert (small.model.reference, small.model.dtype, small.mounts) == ("kimi-k2.5", "bfloat16", [])


def test_an_existing_image_rehearses_as_it_is(tmp_path: Path) -> None:
    big = production()
    engine = big.engine.model_copy(update={"existing": "registry/vllm:1"})
    small = loaded(tmp_path, gpu_twin(big.model_copy(update={"engine": engine}), "llama", port=1))
    assert (small.engine.existing, small.engine.patches) == ("registry/vllm:1", "auto")


def test_a_cpu_deployment_has_no_gpu_to_rehearse_on() -> None:
    big = production()
    engine = big.engine.model_copy(update={"device": "cpu"})
    with pytest.raises(UsageError, match="no GPUs to rehearse on"):
        gpu_twin(big.model_copy(update={"engine": engine}), "llama", port=1)


@pytest.mark.parametrize(
    ("vllm", "recipe"), [("0.16.0", "vllm-cpu-rehearsal"), ("0.20.0", "vllm-cpu"), ("0.32.0", "vllm-cpu")]
)
def test_the_image_of_the_twin(vllm: str, recipe: str) -> None:
    assert recipe_for(vllm, catalog.rehearsal()) == recipe


@pytest.mark.parametrize(
    ("vllm", "near"), [("0.33.0", "has 0.32.0"), ("0.20.2", "has 0.32.0"), ("0.17.0", "has 0.16.0, 0.17.1")]
)
def test_a_release_without_a_cpu_image_names_those_that_have_one(vllm: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"vLLM {vllm} has no twin on the CPU: .* {near}") as failed:
        cpu_recipe(vllm)
    assert failed.value.hint and failed.value.hint.endswith(f"--set engine.vllm={near.split()[-1]}")
    assert cpu_recipe(near.split()[-1]) == recipe_for(vllm, catalog.rehearsal())
