"""A raw dump of two real H200 (a guest without NUMA): what it means, and that nothing is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.errors import UsageError
from kit.gpu.build import bits, build, cpu_list
from kit.gpu.document import as_document, from_document, read_document
from kit.gpu.judge import judge
from kit.gpu.records import Record
from kit.gpu.snapshot import anonymous

DATA = Path(__file__).parents[2] / "data/nvml"
RAW = json.loads((DATA / "h200x2-raw.json").read_text())
NAMES = {
    "name": "name", "uuid": "uuid", "serial": "serial", "minor": "minor", "pci": "pci", "cc": "compute_capability",
    "arch": "architecture", "vbios": "vbios", "mem_v2": "memory", "bar1": "bar1", "gen_max": "pcie_gen_max",
    "gen_cur": "pcie_gen_now", "width_max": "pcie_width_max", "width_cur": "pcie_width_now", "replay": "pcie_replays",
    "mem_affinity": "memory_affinity", "cpu_affinity": "cpu_affinity", "power": "power_usage", "limit": "power_limit",
    "limits": "power_range", "temp": "temperature", "util": "utilization", "throttle": "throttle", "ecc": "ecc",
    "retired": "remapped_rows", "mig": "mig", "persist": "persistence", "compute_mode": "compute_mode",
    "procs": "compute_processes",
}  # fmt: skip


def records():
    yield Record("init", "nvmlInit", value=True)
    yield Record("driver", "nvmlSystemGetDriverVersion", value=RAW["driver"])
    yield Record("cuda_driver", "nvmlSystemGetCudaDriverVersion_v2", value=RAW["cuda"])
    yield Record("count", "nvmlDeviceGetCount", value=RAW["count"])
    for device in RAW["devices"]:
        gpu = device["index"]
        yield Record("handle", "nvmlDeviceGetHandleByIndex", gpu, value=True)
        yield Record("numa_node", "nvmlDeviceGetNumaNodeId", gpu, reason="not-supported")
        for key, field in NAMES.items():
            yield Record(field, key, gpu, value=device[key])
        for link, state in enumerate(device["nvlink"]):
            yield Record(f"nvlink_{link}", "nvmlDeviceGetNvLinkState", gpu, value=state)
            yield Record(f"nvlink_{link}_kind", "nvmlDeviceGetNvLinkRemoteDeviceType", gpu, value=2)
    for pair in RAW["pairs"]:
        yield Record("ancestor", "nvmlDeviceGetTopologyCommonAncestor", pair["a"], pair["b"], pair["ancestor"])
        yield Record("p2p_read", "nvmlDeviceGetP2PStatus", pair["a"], pair["b"], 0)
        for kind, status in pair["p2p"].items():
            yield Record(f"p2p_{kind}", "nvmlDeviceGetP2PStatus", pair["a"], pair["b"], status)


def test_what_it_means():
    snapshot = build(records())
    card = snapshot.gpus[1]
    assert (snapshot.driver, snapshot.cuda_driver) == ("580.159.04", "13.0")
    assert (card.name, card.architecture, card.compute_capability) == ("NVIDIA H200", "Hopper", (9, 0))
    assert (card.memory_mib.total, card.memory_mib.reserved, card.memory_mib.used) == (143771, 615, 0)
    assert (card.numa_node, card.cpu_affinity, card.power_limit_w) == (0, "0-31", 700.0)
    assert snapshot.links == (("X", "NV18"), ("NV18", "X"))
    assert snapshot.p2p[0][1].write == "ok"


def test_nothing_is_wrong():
    assert judge(build(records())) == []


def test_masks():
    assert bits([1 << 63, 1]) == [63, 64]
    assert cpu_list([(1 << 64) - 1, 0, (1 << 64) - 1, 0]) == "0-63,128-191"
    assert cpu_list([5, 0]) == "0,2"
    assert cpu_list([0, 0]) is None
    assert cpu_list(None) is None


def test_a_snapshot_survives_its_document():
    snapshot = build(records())
    document = json.loads(json.dumps(as_document(snapshot, [])))
    assert from_document(document) == snapshot
    assert from_document(json.loads(json.dumps(as_document(anonymous(snapshot), [])))).links == snapshot.links


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "kit.gpus/2"}', '{"schema": "kit.gpus/1", "gpus": [7]}'])
def test_what_is_no_document_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UsageError):
        read_document(tmp_path / "x.json")


@pytest.mark.parametrize("path", sorted(DATA.glob("*.gpus.json")), ids=lambda path: path.name)
def test_nothing_is_wrong_with_a_dump_of_a_sound_machine(path):
    """Each `kit probe --json --anonymize` of a real, sound machine that lies beside the raw dump."""
    assert judge(read_document(path)) == []
