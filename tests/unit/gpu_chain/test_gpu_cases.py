"""The cases of the chain on a GPU: each makes a kit.yaml that loads, and what is found is judged right."""

from __future__ import annotations

import io
import json
import tarfile

import pytest
import yaml

from kit.config import load
from kit.errors import MissingError
from tests.gpu import bed, cases, chain, inputs, links, shapes, steps
from tests.gpu.cases import Expect, Found

CONTENT = cases.read()
BED = {"image": "kit-bed:1", "mounts": ["/usr/lib", "/opt/python"], "site": "/opt/bed/site"}


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize("number", range(len(CONTENT.cases)), ids=[case.id for case in CONTENT.cases])
def test_every_case_is_a_deployment(number, gpu, tmp_path):
    file = tmp_path / "kit.yaml"
    file.write_text(yaml.safe_dump(cases.kit_yaml(CONTENT, number, BED, gpu=gpu)))
    kit = load(file, []).kit
    assert kit.name == CONTENT.cases[number].id
    assert kit.engine.device == ("cuda" if gpu else "cpu")
    assert kit.server.port == cases.FIRST_PORT + number
    assert [mount.source for mount in kit.mounts][:2] == BED["mounts"]


def test_ids_are_unique():
    ids = [case.id for case in CONTENT.cases]
    assert len(set(ids)) == len(ids)


def test_laying_over_keeps_what_is_not_named():
    under = {"a": {"b": 1, "c": [1, 2]}, "d": 4}
    assert cases.merge(under, {"a": {"c": [3]}, "e": {"f": None}}) == {
        "a": {"b": 1, "c": [3]},
        "d": 4,
        "e": {"f": None},
    }
    assert under == {"a": {"b": 1, "c": [1, 2]}, "d": 4}


ROOT = {"category": "gpu-oom", "process": "worker", "line": 7}


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (Found(4, "dead", {"root_cause": ROOT}, "CUDA out of memory"), 0),
        (Found(0, "dead", {"root_cause": ROOT}, "CUDA out of memory"), 1),
        (Found(4, "ready", {"root_cause": ROOT}, "CUDA out of memory"), 1),
        (Found(4, "dead", {"root_cause": ROOT}, "something else"), 1),
        (Found(4, "dead", {"root_cause": ROOT | {"category": "nccl-comm", "process": "none"}}, "x"), 3),
        (Found(4, "dead", {"root_cause": None}, ""), 1),
        (Found(4, "dead", None, ""), 1),
    ],
)
def test_what_is_found_is_held_against_what_is_expected(found, wrong):
    expect = Expect(exit=4, status="dead", category=["gpu-oom"], process=["worker"], line="out of memory")
    assert len(cases.faults(expect, found)) == wrong


def test_a_healthy_case_asks_for_no_diagnosis():
    assert cases.faults(Expect(exit=0, status="ready"), Found(0, "ready", None, "")) == []


def test_figures_are_read_from_the_log():
    log = (
        "(EngineCore pid=9) INFO 11-29 14:01:12 [cuda.py:416] Using AttentionBackendEnum.TRITON_ATTN backend.\n"
        "(EngineCore pid=9) INFO 11-29 14:01:13 [model_runner.py:302] Model loading took 15.75 GiB and 1.37 seconds\n"
        "(EngineCore pid=9) INFO 11-29 14:01:15 [gpu_worker.py:538] Available KV cache memory: 5.26 GiB\n"
        "(EngineCore pid=9) INFO 11-29 14:01:15 [kv_cache_utils.py:2146] GPU KV cache size: 612,976 tokens\n"
    )
    assert chain.figures(log) == {
        "weights_gib": "15.75",
        "kv_cache_gib": "5.26",
        "kv_cache_tokens": "612,976",
        "attention": "TRITON_ATTN",
    }


def test_a_lock_is_read_for_the_other_python():
    lock = (
        "# comment\n"
        "numpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via x\n"
        "numpy==2.5.5 ; python_full_version >= '3.12' \\\n    --hash=sha256:cc\n"
        "six==1.0 --hash=sha256:dd\n"
    )
    assert inputs.for_target(lock) == "numpy==2.5.5 --hash=sha256:cc\nsix==1.0 --hash=sha256:dd\n"


def test_every_locked_input_has_a_hash():
    entries = inputs.for_target(inputs.VLLM_LOCK.read_text()).splitlines()
    assert len(entries) > 80
    assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)
    assert all(len(p["sha256"]) == 64 for p in json.loads(inputs.DEBS_LOCK.read_text())["packages"].values())


def test_the_image_holds_folders_and_a_user_only():
    with tarfile.open(fileobj=io.BytesIO(bed.thin_image())) as tar:
        kinds = {entry.name: "link" if entry.issym() else "file" if entry.isfile() else "folder" for entry in tar}
    assert kinds["lib64"] == "link"
    assert kinds["usr/sbin"] == kinds["model"] == "folder"
    assert [name for name, kind in kinds.items() if kind == "file"] == ["etc/passwd", "etc/group"]


def test_shapes_add_up_to_the_models_they_stand_for():
    def billions(tensors):
        return round(sum(shapes.math.prod(shape) for shape in tensors.values()) / 1e9, 2)

    assert billions(shapes.llama(shapes.LLAMA_8B)) == 8.03
    assert billions(shapes.mla(shapes.MLA_16B)) == 15.96
    assert billions(shapes.llama(shapes.LLAMA_405B)) == 405.85


def test_the_worker_of_a_rank_is_found_by_its_lines():
    log = "(Worker pid=7) x\n(Worker pid=8) x\n(Worker_TP0 pid=7) y\n(Worker_TP1_EP1 pid=8) y\n(Worker_TP10 pid=9) z\n"
    assert (steps.worker_pids(log, 0), steps.worker_pids(log, 1)) == ([7], [8])
    assert steps.worker_pids("(Worker pid=7) x\n", 0) == [7]
    assert steps.worker_pids("(Worker pid=7) x\n", 1) == []


def test_what_the_doctor_said_and_what_the_log_shows_are_held_against_what_is_expected():
    expect = Expect(exit=0, doctor={"gpu.memory-free": "^fail: GPU 1"}, figures={"nccl_ways": "^SHM"})
    right = Found(0, None, None, "", {"gpu.memory-free": "fail: GPU 1: busy"}, {"nccl_ways": "SHM/direct/direct"})
    assert cases.faults(expect, right) == []
    assert len(cases.faults(expect, Found(0, None, None, "", {}, {"nccl_ways": "P2P/IPC"}))) == 2


def test_the_rank_must_be_the_right_one():
    expect = Expect(exit=4, category=["gpu-oom"], rank=1)
    for rank, wrong in ((1, 0), (0, 1), (None, 1)):
        assert len(cases.faults(expect, Found(4, None, {"root_cause": ROOT | {"rank": rank}}, ""))) == wrong


def test_the_matrix_of_nvidia_smi_is_read():
    text = (
        "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNV18\t0-31\t0\t\tN/A\nGPU1\tNV18\t X \t0-31\t0\t\tN/A\n\nLegend:\n\n  X    = Self\n"
    )
    assert links.topology(text) == [["X", "NV18"], ["NV18", "X"]]


def test_two_cards_keep_multicast_off_and_have_two_ranks(tmp_path):
    for number, case in enumerate(CONTENT.cases):
        made = cases.kit_yaml(CONTENT, number, BED, gpu=True)
        two = case.cards == 2
        assert (made["gpus"]["count"], made.get("parallel", {}).get("tensor", 1)) == ((2, 2) if two else (1, 1))
        assert (made["engine"]["env"].get("NCCL_NVLS_ENABLE") == "0") == two


def test_a_worker_is_put_to_sleep_in_one_place():
    worker = "class Worker:\n    def determine_available_memory(self) -> int:\n        return self.rank\n"
    made = bed.sleepy(worker)
    assert "sleep(3600)" in made and made.replace(bed.SLEEPS, "") == worker
    compile(made, "worker", "exec")
    with pytest.raises(MissingError):
        bed.sleepy("class Worker: ...")
