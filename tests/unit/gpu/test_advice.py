"""Advice for each kind of box: pure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.advice import Advice, accept, accepted, forget
from kit.config import Deployment, Kit
from kit.errors import UsageError
from kit.gpu.advise import advise
from kit.gpu.snapshot import Gpu, PeerAccess, Snapshot
from kit.host.facts import Clock, Cpu, HostFacts, HostMemory, NumaNode
from kit.host.kernel import Iommu
from kit.render.arguments import environment
from tests.standin import standin

OK = PeerAccess("ok", "ok", "not-supported", "not-supported")


def deployment(tmp_path, ranks, **engine):
    kit = Kit.model_validate(
        {
            "name": "box",
            "engine": {"vllm": "0.16.0", **engine},
            "model": {"path": "/models/x", "served_name": "x"},
            "gpus": {"count": ranks},
            "parallel": {"tensor": ranks},
        }
    )
    return Deployment(kit, tmp_path / "kit.yaml", {})


def snapshot(name, access=OK, links=None):
    profile = standin.load(name)
    rows = links or tuple(tuple(row.split()) for row in profile["links"])
    gpus = tuple(
        Gpu(
            i, name="card", bus_id=profile["bus_ids"][i], numa_node=profile["nodes"][i], cpu_affinity=profile["cpus"][i]
        )
        for i in range(profile["count"])
    )
    p2p = tuple(tuple(None if a == b else access for b in range(len(rows))) for a in range(len(rows)))
    return Snapshot(gpus=gpus, links=rows, pcie_links=rows, p2p=p2p)


def host(
    iommu="passthrough", redirecting=(), unreadable=(), nodes=2, infiniband=False, balancing=False, model="AMD EPYC"
):
    return HostFacts(
        kernel_release="6.8",
        cmdline="",
        iommu=Iommu(iommu, "said"),
        cpu=Cpu(model, 256, (), {}),
        numa=tuple(NumaNode(n, "", None) for n in range(nodes)),
        numa_balancing=balancing,
        memory=HostMemory(None, None, None, None, None),
        limits={},
        cgroup="v2",
        clock=Clock(0, True),
        infiniband=infiniband,
        root=True,
        nvidia_module="open",
        cards=8,
        acs_redirecting=tuple(redirecting),
        acs_unreadable=tuple(unreadable),
    )


@pytest.mark.parametrize(
    ("name", "ranks", "env"),
    [
        ("epyc-8-switch-pairs", 8, {"NCCL_IB_DISABLE": "1", "NCCL_P2P_LEVEL": "SYS", "NCCL_MIN_NCHANNELS": "8"}),
        ("epyc-8-switch-pairs", 4, {"NCCL_IB_DISABLE": "1", "NCCL_P2P_LEVEL": "NODE", "NCCL_MIN_NCHANNELS": "8"}),
        ("epyc-8-switch-pairs", 2, {"NCCL_IB_DISABLE": "1", "NCCL_MIN_NCHANNELS": "8"}),
        ("wrx90-8-three-switches", 4, {"NCCL_IB_DISABLE": "1", "NCCL_MIN_NCHANNELS": "8"}),
        ("turin-8-direct", 4, {"NCCL_IB_DISABLE": "1", "NCCL_P2P_LEVEL": "PHB", "NCCL_MIN_NCHANNELS": "8"}),
        ("one-socket-4", 4, {"NCCL_IB_DISABLE": "1", "NCCL_P2P_LEVEL": "NODE", "NCCL_MIN_NCHANNELS": "8"}),
        ("workstation-2", 1, {}),
    ],
)
def test_nccl_by_matrix(tmp_path, name, ranks, env):
    assert advise(deployment(tmp_path, ranks).kit, snapshot(name), host()).env == env


def test_nvlink_needs_no_word_about_pcie(tmp_path):
    advice = advise(deployment(tmp_path, 2).kit, snapshot("h200-2-guest", links=(("X", "NV18"), ("NV18", "X"))), host())
    assert advice.env == {"NCCL_IB_DISABLE": "1"}


def test_infiniband_is_left_on_where_it_is(tmp_path):
    advice = advise(deployment(tmp_path, 8).kit, snapshot("epyc-8-switch-pairs"), host(infiniband=True))
    assert "NCCL_IB_DISABLE" not in advice.env


@pytest.mark.parametrize(
    ("iommu", "redirecting", "unreadable", "disabled"),
    [
        ("translated", ["0000:00:01.1"], [], True),
        ("translated", [], ["0000:00:01.1"], True),  # not known to be off: half an hour is at stake
        ("translated", [], [], False),
        ("passthrough", ["0000:00:01.1"], [], False),
        ("off", ["0000:00:01.1"], [], False),
    ],
)
def test_peer_access_is_avoided_only_where_it_can_hang(tmp_path, iommu, redirecting, unreadable, disabled):
    found = advise(deployment(tmp_path, 8).kit, snapshot("epyc-8-switch-pairs"), host(iommu, redirecting, unreadable))
    assert (found.env.get("NCCL_P2P_DISABLE") == "1") == disabled
    assert ("NCCL_P2P_LEVEL" in found.env) != disabled


@pytest.mark.parametrize(
    ("name", "ranks", "args", "told"),
    [
        ("workstation-2", 2, [], True),
        ("workstation-2", 2, ["--disable-custom-all-reduce"], False),
        ("one-socket-4", 4, [], False),  # over PCIe vLLM's own all-reduce is for two cards only
    ],
)
def test_vllms_own_all_reduce_does_not_heed_nccls_variables(tmp_path, name, ranks, args, told):
    kit = deployment(tmp_path, ranks, args=args).kit
    advice = advise(kit, snapshot(name), host("translated", ["0000:00:01.1"]))
    assert advice.env["NCCL_P2P_DISABLE"] == "1"
    assert any("--disable-custom-all-reduce" in note for note in advice.notes) == told


def test_no_peer_access_by_the_driver(tmp_path):
    blocked = snapshot("one-socket-4", PeerAccess("chipset-not-supported", "ok", None, None))
    assert advise(deployment(tmp_path, 4).kit, blocked, host()).env["NCCL_P2P_DISABLE"] == "1"


@pytest.mark.parametrize(("model", "word"), [("AMD EPYC 9755", "amd_iommu=on"), ("INTEL(R) XEON(R)", "intel_iommu=on")])
def test_the_kernel_command_line_by_processor(tmp_path, model, word):
    advice = advise(deployment(tmp_path, 8).kit, snapshot("epyc-8-switch-pairs"), host("translated", model=model))
    assert any(f"{word} iommu=pt" in note for note in advice.notes)


def test_cards_of_one_pair_are_named_when_the_first_are_not_nearest(tmp_path):
    links = (("X", "SYS", "PIX"), ("SYS", "X", "SYS"), ("PIX", "SYS", "X"))
    gpus = tuple(Gpu(i, name="card", cpu_affinity="0-7", numa_node=0) for i in range(3))
    advice = advise(
        deployment(tmp_path, 2).kit, Snapshot(gpus=gpus, links=links, pcie_links=links, p2p=((OK,) * 3,) * 3), host()
    )
    assert (advice.env["CUDA_VISIBLE_DEVICES"], advice.env["CUDA_DEVICE_ORDER"]) == ("0,2", "PCI_BUS_ID")
    assert advice.gpus == (0, 2)


def test_cpus_only_when_all_cards_hang_on_one_of_several_nodes(tmp_path):
    half = advise(deployment(tmp_path, 4).kit, snapshot("epyc-8-switch-pairs"), host())
    assert (half.cpus, half.rank_cpus) == ("0-63,128-191", ("0-63,128-191",) * 4)
    assert any("4,5,6,7" in note for note in half.notes)
    assert advise(deployment(tmp_path, 8).kit, snapshot("epyc-8-switch-pairs"), host()).cpus is None
    assert advise(deployment(tmp_path, 4).kit, snapshot("one-socket-4"), host(nodes=1)).cpus is None


@pytest.mark.parametrize(("vllm", "word"), [("0.16.0", "cannot bind"), ("0.33.0", "--numa-bind-nodes 0 0 0 0 1 1 1 1")])
def test_binding_of_workers_by_release(tmp_path, vllm, word):
    advice = advise(deployment(tmp_path, 8, vllm=vllm).kit, snapshot("epyc-8-switch-pairs"), host())
    assert any(word in note for note in advice.notes)


def test_too_few_cards_or_the_cpu_give_no_advice(tmp_path):
    assert advise(deployment(tmp_path, 8).kit, snapshot("one-socket-4"), host()).env == {}
    assert advise(deployment(tmp_path, 8).kit, Snapshot(), host()).notes == ()


def test_accepted_advice_reaches_the_engine_below_kit_yaml(tmp_path):
    site = deployment(tmp_path, 8, env={"NCCL_P2P_LEVEL": "NODE"})
    advice = advise(site.kit, snapshot("epyc-8-switch-pairs"), host())
    assert "NCCL_MIN_NCHANNELS" not in environment(site)
    accept(site, advice)
    assert accepted(site) == advice
    assert environment(site)["NCCL_MIN_NCHANNELS"] == "8"
    assert environment(site)["NCCL_P2P_LEVEL"] == "NODE"
    assert forget(site) and not forget(site)
    assert accepted(site) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "kit.advice/1", "env": {"A": 1}}', '{"schema": "x"}'])
def test_damaged_advice_is_refused_with_what_to_do(tmp_path, text):
    site = deployment(tmp_path, 8)
    accept(site, Advice())
    (site.state / "advice.json").write_text(text)
    with pytest.raises(UsageError) as refused:
        accepted(site)
    assert refused.value.hint == "kit doctor --accept writes it anew"


def test_accepted_advice_in_the_rendered_files(tmp_path):
    from kit.render import render

    site = deployment(tmp_path, 4)
    before = render(site, "image:1").files
    assert b"taskset" not in before["launch.sh"]
    accept(site, advise(site.kit, snapshot("epyc-8-switch-pairs"), host()))
    after = render(site, "image:1").files
    script = tmp_path / "launch.sh"
    script.write_bytes(after["launch.sh"])
    (tmp_path / "engine.env").write_bytes(after["engine.env"])
    assert subprocess.run([Path(sys.executable).with_name("shellcheck"), script]).returncode == 0
    dry = subprocess.run(["bash", script], env={**os.environ, "KIT_DRY_RUN": "1"}, capture_output=True, text=True)
    assert dry.stdout.startswith("taskset --cpu-list 0-63\\,128-191 vllm serve ")
    assert b"# accepted advice for this box: " in after["engine.env"]
    assert b"\nNCCL_P2P_LEVEL=NODE\n" in after["engine.env"]
