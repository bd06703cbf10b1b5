"""Facts of the machine from made-up files of its kernel, and a few from the real one."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from kit.host import instructions, kernel
from kit.host.cdi import cdi_spec
from kit.host.disks import disk, read_speed
from kit.host.facts import host_facts
from kit.host.lock import cuda_of
from kit.host.processes import holder


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("cmdline", "units", "mode"),
    [
        ("quiet", True, "translated"),
        ("quiet", False, "off"),
        ("quiet iommu=pt amd_iommu=on", True, "passthrough"),
        ("iommu.passthrough=1", True, "passthrough"),
        ("amd_iommu=off", True, "off"),
        ("intel_iommu=off", False, "off"),
    ],
)
def test_iommu_by_command_line_and_sysfs(tmp_path, cmdline, units, mode):
    put(tmp_path, "proc/cmdline", cmdline)
    (tmp_path / "sys/class/iommu").mkdir(parents=True)
    if units:
        (tmp_path / "sys/class/iommu/ivhd0").mkdir()
    assert kernel.iommu(tmp_path).mode == mode


def test_iommu_is_unknown_where_nothing_tells(tmp_path):
    assert kernel.iommu(tmp_path).mode == "unknown"


@pytest.mark.parametrize(
    ("ours", "mode"), [("DMA-FQ", "translated"), ("DMA", "translated"), ("identity", "passthrough")]
)
def test_the_groups_of_the_cards_decide_over_the_command_line(tmp_path, ours, mode):
    put(tmp_path, "proc/cmdline", "iommu=pt")
    put(tmp_path, "sys/kernel/iommu_groups/7/type", f"{ours}\n")
    put(tmp_path, "sys/kernel/iommu_groups/7/devices/0000:01:00.0/vendor", "0x10de\n")
    put(tmp_path, "sys/kernel/iommu_groups/8/type", "DMA-FQ\n")
    put(tmp_path, "sys/kernel/iommu_groups/8/devices/0000:00:14.0/vendor", "0x8086\n")
    assert kernel.iommu(tmp_path).mode == mode


def test_xids_are_read_from_the_kernels_log():
    log = (
        "6,1,2,-;NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  595.58.03\n"
        "3,2,3,-;NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
        "3,3,4,-;NVRM: Xid (PCI:0000:C1:00.0): 31, pid=77, name=python3, MMU Fault\n"
    )
    assert [(xid.number, xid.bus_id) for xid in kernel.find_xids(log)] == [(79, "0000:41:00.0"), (31, "0000:c1:00.0")]


def test_a_log_that_may_not_be_read_is_unknown_not_clean(tmp_path):
    assert kernel.xids(tmp_path) is None
    put(tmp_path, "dev/kmsg", "6,1,2,-;all is well\n")
    assert kernel.xids(tmp_path) == ()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.58.03  Release Build", "open"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01", "proprietary"),
    ],
)
def test_which_kernel_module(tmp_path, said, kind):
    put(tmp_path, "proc/driver/nvidia/version", said)
    assert kernel.nvidia_module(tmp_path) == kind


@pytest.mark.parametrize(
    "cgroup",
    [
        f"0::/system.slice/docker-{'0123456789ab' + 'c' * 52}.scope",
        f"9:memory:/docker/{'0123456789ab' + 'c' * 52}",
        f"0::/kubepods/pod1/{'0123456789ab' + 'c' * 52}",
    ],
)
def test_the_container_of_a_process(tmp_path, cgroup):
    put(tmp_path, "proc/42/cgroup", cgroup)
    put(tmp_path, "proc/42/comm", "VLLM::Worker_TP\n")
    found = holder(tmp_path, 42)
    assert (found.name, found.container) == ("VLLM::Worker_TP", "0123456789ab")


def test_a_process_of_another_namespace_is_only_its_id(tmp_path):
    assert holder(tmp_path, 42) == type(holder(tmp_path, 42))(42)


def test_this_very_machine():
    facts = host_facts(Path("/"))
    assert facts.cpu.count >= 1 and facts.memory.total > 100
    assert facts.cgroup in ("v1", "v2", "unknown")
    assert set(facts.cpu.usable) <= set(facts.cpu.flags)
    assert facts.limits["nofile"].hard == -1 or facts.limits["nofile"].soft <= facts.limits["nofile"].hard


def test_an_empty_machine_gives_nothing_and_raises_nothing(tmp_path):
    facts = host_facts(tmp_path)
    assert (facts.cmdline, facts.cpu.model, facts.cpu.usable, facts.numa, facts.memory.total) == (
        None,
        None,
        {},
        (),
        None,
    )


@pytest.mark.skipif(instructions.os.uname().machine != "x86_64", reason="machine code of x86-64")
def test_an_instruction_that_faults_ends_only_its_own_process(monkeypatch):
    monkeypatch.setitem(instructions.CODE, "avx2", "0f0b c3")  # ud2
    assert instructions.attempt("avx2") == signal.Signals.SIGILL.name


@pytest.mark.skipif(instructions.os.uname().machine != "x86_64", reason="machine code of x86-64")
def test_what_this_processor_announces_is_tried_for_real():
    announced = [name for name in ("avx2", "avx512f") if name in Path("/proc/cpuinfo").read_text().split()]
    assert instructions.usable(announced) == dict.fromkeys(announced)


def test_a_tile_configuration_is_64_bytes():
    assert len(instructions.TILE_CONFIG) == 64
    assert list(instructions.TILE_CONFIG[16:22]) == [64, 0] * 3
    assert list(instructions.TILE_CONFIG[48:51]) == [16] * 3


MOUNTS = """22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:40 / /models rw - nfs4 server:/models rw
31 22 0:41 / /models/local\\040disk rw - xfs /dev/nvme0n1 rw
"""


def test_the_mount_of_a_path(tmp_path, monkeypatch):
    from kit.host import disks

    put(tmp_path, "proc/self/mountinfo", MOUNTS)
    kinds = {path: disks._mount(Path(path), tmp_path)[1] for path in ("/models/a", "/models/local disk/a", "/x")}
    assert kinds == {"/models/a": "nfs4", "/models/local disk/a": "xfs", "/x": "ext4"}


def test_a_folder_that_is_not_there_yet_is_judged_by_its_parent(tmp_path):
    assert disk(tmp_path / "a/b/c").total == disk(tmp_path).total


def test_reading_speed_needs_a_file_large_enough(tmp_path):
    put(tmp_path, "small", "x")
    assert read_speed(tmp_path) is None
    (tmp_path / "model.safetensors").write_bytes(bytes(20 << 20))
    assert read_speed(tmp_path, seconds=0.01) > 0


SPEC = """
cdiVersion: 0.6.0
kind: nvidia.com/gpu
devices:
  - name: "0"
    containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}
  - name: all
    containerEdits: {deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia1}]}
containerEdits:
  deviceNodes: [{path: /dev/nvidiactl}]
  mounts:
    - {hostPath: /usr/lib/libcuda.so.595.58.03, containerPath: /usr/lib/libcuda.so.595.58.03}
"""


def test_a_cdi_spec(tmp_path):
    put(tmp_path, "etc/cdi/nvidia.yaml", SPEC)
    put(tmp_path, "etc/cdi/broken.yaml", "kind: [")
    put(tmp_path, "etc/cdi/other.json", '{"kind": "vendor.com/net", "devices": []}')
    put(tmp_path, "dev/nvidia0", "")
    put(tmp_path, "dev/nvidiactl", "")
    spec = cdi_spec(root=tmp_path)
    assert (spec.devices, spec.drivers, spec.missing_nodes) == (("0", "all"), ("595.58.03",), ("/dev/nvidia1",))
    assert len(spec.files) == 1 and "broken.yaml" in spec.broken[0]


@pytest.mark.parametrize(
    ("line", "cuda"),
    [
        ("nvidia-cuda-runtime-cu12==12.8.90 \\", "12.8"),
        ("nvidia-cuda-runtime==13.0.48", "13.0"),
        ("numpy==2.4.6", None),
    ],
)
def test_the_cuda_of_an_image_from_its_lock(tmp_path, line, cuda):
    put(tmp_path, "0.16.0/requirements.lock", f"numpy==2.4.6\n{line}\n    --hash=sha256:00\n")
    assert cuda_of(tmp_path, "0.16.0") == cuda
