"""Every profile of the stand-in machine, under the real nvidia-ml-py in the process that asks it."""

from __future__ import annotations

import json

import pytest

from kit.cli.probe import command
from kit.errors import UsageError
from kit.gpu.document import as_document
from kit.gpu.findings import Expected
from kit.gpu.judge import judge
from kit.gpu.probe import probe
from tests.standin import standin

LIMITS_S = {"fault-init-hangs": 0.3, "fault-call-hangs": 2.0, "fault-pair-hangs": 2.0}


def look(name, limit_s=60.0, expected=None):
    snapshot = probe(LIMITS_S.get(name, limit_s))
    return json.loads(json.dumps(as_document(snapshot, judge(snapshot, expected))))


@pytest.mark.parametrize("name", standin.names())
def test_findings_are_those_of_the_profile(name, machine):
    machine(name)
    found = sorted([finding["id"], *finding["gpus"]] for finding in look(name)["findings"])
    assert found == sorted(standin.load(name)["findings"])


def test_every_kind_of_box_and_fault_has_a_profile():
    names = standin.names()
    assert len([n for n in names if not n.startswith("fault-")]) >= 6
    assert {finding[0] for n in names for finding in standin.load(n)["findings"]} >= {
        "gpu-lost", "gpu-mig", "link-width", "link-generation", "gpu-memory-busy", "gpu-row-remap-pending",
        "driver-old", "nvml-call-hung", "gpu-odd-one",
    }  # fmt: skip


def test_values_arrive_as_the_card_says_them(machine):
    machine("epyc-8-switch-pairs")
    document = look("epyc-8-switch-pairs")
    assert (document["schema"], document["driver"], document["cuda_driver"]) == ("kit.gpus/1", "595.58.03", "13.2")
    card = document["gpus"][5]
    assert card["name"] == "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    assert card["memory_mib"] == {"total": 97887, "reserved": 636, "free": 97251, "used": 0}
    assert card["bar1_mib"]["total"] == 131072
    assert card["compute_capability"] == [12, 0]
    assert card["bus_id"] == "00000000:82:00.0"
    assert card["pcie"] == {
        "gen_max": 5, "gen_card": 5, "gen_now": 1, "width_max": 16, "width_now": 16, "replays": 0,
    }  # fmt: skip
    assert (card["numa_node"], card["cpu_affinity"]) == (1, "64-127,192-255")
    assert card["power"] == {"limit_w": 600.0, "default_w": 600.0, "min_w": 300.0, "max_w": 600.0, "draw_w": 39.0}
    assert (card["ecc"], card["mig"], card["persistence"], card["throttle"]) == (True, False, True, ["idle"])
    assert (card["index"], card["minor"]) == (5, 2)
    assert card["retired_pages_pending"] is None
    assert document["links"][4] == ["SYS", "SYS", "SYS", "SYS", "X", "PIX", "NODE", "NODE"]
    # Read must be asked by index 0: the binding's own constant for it is a tuple.
    assert document["p2p"][0][1] == {"read": "ok", "write": "ok", "atomics": "not-supported", "nvlink": "not-supported"}
    assert {gap["call"]: gap["reason"] for gap in document["gaps"]}["nvmlDeviceGetRetiredPagesPendingStatus"] == (
        "not-supported"
    )


def test_nvlinks_are_counted_through_switches(machine):
    machine("h200-2-guest")
    document = look("h200-2-guest")
    assert document["links"] == [["X", "NV18"], ["NV18", "X"]]
    assert document["pcie_links"] == [["X", "PHB"], ["PHB", "X"]]


def test_nvlinks_straight_to_a_peer(machine):
    profile = standin.load("h200-2-guest")
    profile["cards"] = {0: {"nvlinks": "1111"}, 1: {"nvlinks": "0000"}}
    machine(profile)
    document = look("")
    assert document["links"] == [["X", "NV4"], ["NV4", "X"]]


def test_a_lost_card_leaves_the_others_whole(machine):
    machine("fault-gpu-lost")
    document = look("fault-gpu-lost")
    states = [card["state"] for card in document["gpus"]]
    assert states == ["ok"] * 5 + ["lost"] + ["ok"] * 2
    assert document["gpus"][7]["memory_mib"]["total"] == 97887
    assert document["links"][5] == [None] * 5 + ["X", None, None]
    assert document["links"][6][7] == "PIX"


def test_what_was_said_before_a_call_hung_is_kept(machine):
    machine("fault-call-hangs")
    document = look("fault-call-hangs")
    card = document["gpus"][6]
    assert (card["state"], card["memory_mib"]["total"], card["power"]["draw_w"]) == ("hung", 97887, None)
    assert document["gpus"][7]["power"]["draw_w"] == 39.0
    assert document["links"][0][7] == "SYS"
    assert "nvmlDeviceGetPowerUsage on GPU 6 did not come back within 2 s" in document["findings"][0]["found"]


def test_older_functions_are_asked_where_the_newest_is_missing(machine):
    machine("old-library")
    document = look("old-library")
    assert document["gpus"][0]["memory_mib"] == {"total": 97887, "reserved": None, "free": 97251, "used": 636}


def test_seven_of_eight_by_what_is_expected(machine):
    machine("fault-seven-of-eight")
    document = look("fault-seven-of-eight", expected=Expected(count=8))
    missing = next(f for f in document["findings"] if f["id"] == "gpu-missing")
    assert (missing["level"], missing["found"], missing["want"]) == ("fail", "7 of 8 GPUs", "8 GPUs")


def test_a_card_that_only_the_bus_sees(machine):
    root = machine("fault-seven-of-eight")
    for bus_id in standin.load("epyc-8-switch-pairs")["bus_ids"]:
        device = root / "sys/bus/pci/devices" / f"0000{bus_id[8:].lower()}"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n")
    (root / "dev").mkdir()
    assert "gpu-missing" not in [f["id"] for f in look("")["findings"]]  # a container that was given some of the cards
    for minor in range(8):
        (root / f"dev/nvidia{minor}").touch()
    missing = next(f for f in look("")["findings"] if f["id"] == "gpu-missing")
    assert missing["found"] == "the driver sees 7 GPUs, the PCI bus 8: 0000:c2:00.0 does not answer"


def test_a_process_is_named_as_proc_names_it(machine):
    root = machine("fault-foreign-process")
    folder = root / "proc/4194000"
    folder.mkdir(parents=True)
    (folder / "comm").write_text("python3\n")
    (folder / "cgroup").write_text(f"0::/system.slice/docker-{'ab' * 32}.scope\n")
    holder = look("")["gpus"][0]["processes"][0]
    assert (holder["pid"], holder["used_mib"], holder["name"]) == (4194000, 81920, "python3")
    assert holder["container"] == "abababababab"


def test_the_command_on_a_faulty_box(machine, kit_json):
    machine("fault-mig-on-one")
    document, code = kit_json("probe")
    assert (document["schema"], code) == ("kit.gpus/1", 0)
    assert [finding["id"] for finding in document["findings"]] == ["gpu-mig"]


def test_the_command_without_any_driver(machine, kit_json, tmp_path, monkeypatch):
    machine("one-socket-4")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    document, code = kit_json("probe")
    assert (code, document["gpus"], document["findings"][0]["id"]) == (5, [], "nvml-unavailable")


def test_an_anonymized_dump_names_nothing_and_judges_alike(machine, kit_json, tmp_path):
    machine("fault-foreign-process")
    document, _ = kit_json("probe", "--anonymize")
    text = json.dumps(document)
    assert "5a7d" not in text and "17910240" not in text and "4194000" not in text
    (tmp_path / "dump.json").write_text(text)
    again, _ = kit_json("probe", "--from", str(tmp_path / "dump.json"))
    assert [f["id"] for f in again["findings"]] == ["gpu-memory-busy"]
    assert again["gpus"] == document["gpus"]


def test_the_report_for_people(machine, capsys):
    profile = standin.load("fault-foreign-process")
    profile["cards"][1] = {"name": "NVIDIA RTX PRO 6000 Blackwell \x1b[31mred"}
    machine(profile)
    assert command(["--expect", "8"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("8 GPUs, driver 595.58.03, CUDA up to 13.2\n")
    assert "GPU3  NODE  NODE  PIX   X     SYS   SYS   SYS   SYS" in text
    assert "├─ socket (NUMA node 0; CPUs 0-63,128-191)" in text
    assert "peer atomics not-supported (56 ways)" in text
    assert "GPU 0: pid 4194000 with 80.0 GiB" in text
    assert "WARN  GPU 0: 80.0 GiB of 95.6 GiB held by pid 4194000 with 80.0 GiB" in text
    assert "Xid faults: unknown, the kernel's log needs root here (sudo kit probe)" in text
    assert "\x1b" not in text and "\\x1b[31mred" in text


@pytest.mark.parametrize(
    "arguments", [["--limit", "soon"], ["--limit", "0"], ["--expect", "-1"], ["--json", "x"], ["--no"]]
)
def test_a_wrong_command_line(arguments):
    with pytest.raises(UsageError) as refused:
        command(arguments)
    assert refused.value.hint == "kit probe --help"
