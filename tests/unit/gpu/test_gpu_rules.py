"""Rules that no profile of the stand-in machine shows, and that every finding has a check of kit doctor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.checks.registry import checks
from kit.gpu.findings import Expected
from kit.gpu.judge import judge
from kit.gpu.known import known_gpu, version
from kit.gpu.snapshot import Gap, Gpu, Memory, Pcie, PeerAccess, Snapshot, Xid
from tests.standin import standin

NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
CARD = Gpu(
    0,
    name=NAME,
    bus_id="00000000:41:00.0",
    memory_mib=Memory(97887, 636, 97251, 0),
    pcie=Pcie(5, 5, 1, 16, 16, 0),
    ecc=True,
    ecc_pending=False,
)


def box(*gpus, label="PIX", **more):
    links = tuple(tuple("X" if a == b else label for b in range(len(gpus))) for a in range(len(gpus)))
    p2p = tuple(tuple(None if a == b else PeerAccess("ok", "ok") for b in range(len(gpus))) for a in range(len(gpus)))
    values = {"driver": "595.58.03", "cuda_driver": "13.2", "links": links, "pcie_links": links, "p2p": p2p}
    return Snapshot(gpus=gpus, **{**values, **more})


def two(**changes):
    return box(replace(CARD, **changes), replace(CARD, index=1, bus_id="00000000:42:00.0"))


def found(snapshot, expected=None):
    return [(finding.id, finding.level, finding.gpus) for finding in judge(snapshot, expected)]


def test_a_sound_pair():
    assert found(two()) == []


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"compute_mode": "prohibited"}, ("gpu-compute-prohibited", "fail", (0,))),
        ({"ecc_pending": True}, ("gpu-ecc-pending", "warn", (0,))),
        ({"mig_pending": True}, ("gpu-mig", "fail", (0,))),
        ({"retired_pages_pending": True}, ("gpu-row-remap-pending", "fail", (0,))),
        ({"state": "error"}, ("gpu-unusable", "fail", (0,))),
        ({"pcie": Pcie(4, None, 1, 16, 16, 0)}, ("link-generation", "warn", (0,))),  # by what such a card can
    ],
)
def test_one_fault_of_one_card(changes, finding):
    assert found(two(**changes)) == [finding]


def test_the_closed_kernel_module_cannot_drive_blackwell():
    assert found(replace(two(), kernel_module="proprietary")) == [("driver-closed-module", "fail", ())]
    assert found(replace(two(), kernel_module="open")) == []


def test_a_kind_that_the_deployment_was_not_made_for():
    assert found(two(), Expected(2, "NVIDIA H200")) == [("gpu-wrong-kind", "fail", (0, 1))]
    assert found(two(), Expected(2, "NVIDIA RTX PRO 6000")) == []


def test_xids_are_told_by_card_and_count():
    xids = (
        Xid(79, "0000:41:00.0", ""),
        Xid(13, "0000:41:00.0", ""),
        Xid(79, "0000:41:00.0", ""),
        Xid(31, "0000:99:00.0", ""),
    )
    findings = [f for f in judge(replace(two(), xids=xids)) if f.id == "gpu-xid"]
    assert [f.found for f in findings] == [
        "GPU 0: the kernel's log holds Xid 79 (2 times), 13 since boot",
        "0000:99:00.0: the kernel's log holds Xid 31 since boot",
    ]


def test_a_way_of_two_lengths_and_one_not_known():
    crooked = replace(two(), links=(("X", "PIX"), ("SYS", "X")))
    unknown = replace(two(), links=(("X", None), (None, "X")))
    assert [f.found for f in judge(crooked)] == ["two ways of different length between GPUs 0-1"]
    assert [f.found for f in judge(unknown)] == ["no known way between GPUs 0-1"]


def test_an_answer_that_only_one_of_two_twins_gives():
    gap = Gap("nvmlDeviceGetSerial", "not-supported", "Not Supported", gpu=0)
    assert found(replace(two(), gaps=(gap,))) == [("nvml-call-failed", "warn", (0,))]
    everywhere = Gap("nvmlDeviceGetSerial", "not-supported", "Not Supported")
    assert found(replace(two(), gaps=(everywhere,))) == []


def test_a_card_in_mig_mode_has_less_to_say():
    gap = Gap("nvmlDeviceGetUtilizationRates", "not-supported", "Not Supported", gpu=0)
    assert found(replace(two(mig=True), gaps=(gap,))) == [("gpu-mig", "fail", (0,))]


def test_cards_of_unknown_kind_are_judged_by_what_they_say_themselves():
    plain = replace(CARD, name="NVIDIA Something New", pcie=Pcie(6, 6, 1, 16, 16, 0))
    assert known_gpu(plain.name) is None
    assert found(box(plain, replace(plain, index=1))) == []
    assert found(box(replace(plain, pcie=Pcie(5, 6, 1, 16, 8, 0)), replace(plain, index=1))) == [
        ("link-width", "warn", (0,)),
        ("link-generation", "warn", (0,)),
    ]


@pytest.mark.parametrize(("older", "newer"), [("580.82", "580.126.09"), ("570", "580.82"), ("595.58.03", "595.84")])
def test_versions_compare_by_number(older, newer):
    assert version(older) < version(newer)


def test_every_finding_belongs_to_a_check():
    claimed = {name for kind in checks().values() for name in getattr(kind, "ids", ())}
    claimed |= {"gpu-missing", "gpu-memory-busy", "gpu-xid"}  # gpu.present, gpu.memory-free and gpu.xid read these
    shown = {finding[0] for name in standin.names() for finding in standin.load(name)["findings"]}
    assert shown <= claimed
