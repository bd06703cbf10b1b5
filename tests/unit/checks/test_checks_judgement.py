"""What single checks answer, from facts made by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kit.checks import config, docker, gpu, host, image, link
from kit.checks.facts import Facts
from kit.config import Deployment, Kit
from kit.errors import MissingError
from kit.gpu.snapshot import Gpu, Holder, Memory, Snapshot
from kit.host.cdi import CdiSpec
from kit.host.disks import Disk
from kit.host.facts import Clock, Cpu, HostMemory
from kit.host.kernel import Iommu

GB = 10**9


def site(tmp_path, **parts):
    base = {
        "name": "box",
        "engine": {"vllm": "0.16.0"},
        "model": {"path": "model", "served_name": "x"},
        "gpus": {"count": 2},
        "parallel": {"tensor": 2},
    }
    return Deployment(Kit.model_validate({**base, **parts}), tmp_path / "kit.yaml", {})


def on_cpu(tmp_path, dtype="auto"):
    return site(
        tmp_path,
        engine={"vllm": "0.32.0", "device": "cpu"},
        model={"path": "model", "served_name": "x", "dtype": dtype},
        gpus={},
        parallel={},
    )


def machine(**facts):
    return SimpleNamespace(**facts)


AMX = Cpu("Xeon", 8, ("avx512f", "amx_bf16"), {"avx512f": None, "amx_bf16": "SIGILL"})


@pytest.mark.parametrize(("dtype", "status"), [("auto", "fail"), ("bfloat16", "fail"), ("float32", "warn")])
def test_amx_that_is_announced_and_faults(tmp_path, dtype, status):
    answer = host.Instructions().check(machine(cpu=AMX), on_cpu(tmp_path, dtype))
    assert (answer.status, answer.found) == (status, "announced but not usable: amx_bf16 (SIGILL)")
    assert answer.fix.startswith("model.dtype: float32")


def test_broken_instructions_do_not_stop_a_deployment_on_gpus(tmp_path):
    assert host.Instructions().check(machine(cpu=AMX), site(tmp_path)).status == "warn"


@pytest.mark.parametrize(
    ("total", "available", "limit", "status"),
    [(64000, 60000, "16GiB", "pass"), (64000, 8000, "16GiB", "warn"), (8000, 7000, "16GiB", "fail")],
)
def test_memory(tmp_path, total, available, limit, status):
    facts = machine(memory=HostMemory(total, available, 0, None, None))
    assert host.Memory().check(facts, site(tmp_path, limits={"memory": limit})).status == status


def test_memory_that_cannot_be_read_is_no_pass(tmp_path):
    answer = host.Memory().check(machine(memory=HostMemory(None, None, None, None, None)), site(tmp_path))
    assert (answer.status, answer.found.startswith("unknown")) == ("warn", True)


@pytest.mark.parametrize(
    ("kind", "speed", "size", "status"),
    [("ext4", 2 * GB, 1000, "pass"), ("ext4", 1, 20_000_000, "warn"), ("nfs4", 2 * GB, 1000, "warn")],
)
def test_the_models_disk(tmp_path, kind, speed, size, status):
    (tmp_path / "model").mkdir()
    with (tmp_path / "model/a.safetensors").open("wb") as handle:
        handle.truncate(size)
    disk = Disk("model", "/models", kind, "x", 1, 1)
    assert host.ModelDisk().check(disk, speed, site(tmp_path)).status == status


def test_a_clock_of_the_past():
    assert host.ClockSane().check(machine(clock=Clock(0.0, False))).status == "fail"


def engine(**more):
    values = {"kind": "found", "version": "28.5.2", "host": "unix:///x", "cdi": True, "runtimes": ("runc",)}
    return SimpleNamespace(**{**values, "containerd_store": True, **more})


SPEC = CdiSpec(("/etc/cdi/nvidia.yaml",), ("0", "all"), ("595.58.03",), (), ())
NONE = CdiSpec((), (), (), (), ())


@pytest.mark.parametrize(
    ("cdi", "runtimes", "spec", "access", "status"),
    [
        (True, ("runc",), SPEC, "auto", "pass"),
        (True, ("runc", "nvidia"), NONE, "auto", "pass"),
        (True, ("runc", "nvidia"), NONE, "cdi", "fail"),
        (True, ("runc",), SPEC, "runtime", "fail"),
        (False, ("runc",), SPEC, "auto", "fail"),
        (False, ("runc", "nvidia"), SPEC, "auto", "pass"),
        (True, ("runc",), NONE, "auto", "fail"),
    ],
)
def test_gpu_access(tmp_path, cdi, runtimes, spec, access, status):
    where = site(tmp_path, gpus={"count": 2, "access": access})
    assert docker.GpuAccess().check(engine(cdi=cdi, runtimes=runtimes), spec, where).status == status


@pytest.mark.parametrize(
    ("answer", "can_set_up", "status"),
    [(engine(), False, "pass"), ("no engine answers", True, "warn"), ("no engine answers", False, "fail")],
)
def test_no_engine_is_no_failure_where_the_kit_can_make_one(answer, can_set_up, status):
    assert docker.Answers().check(answer, can_set_up).status == status


@pytest.mark.parametrize(
    ("spec", "driver", "status"),
    [
        (SPEC, "595.58.03", "pass"),
        (SPEC, "595.84", "fail"),
        (CdiSpec(SPEC.files, SPEC.devices, SPEC.drivers, ("/dev/nvidia7",), ()), "595.58.03", "fail"),
        (NONE, "595.58.03", "skip"),
    ],
)
def test_a_cdi_spec_of_another_driver(spec, driver, status):
    assert docker.CdiCurrent().check(spec, Snapshot(driver=driver)).status == status


@pytest.mark.parametrize(
    ("spec", "access", "cgroup", "status"),
    [
        (SPEC, "auto", "systemd", "pass"),
        (NONE, "auto", "systemd", "warn"),
        (SPEC, "runtime", "systemd", "warn"),
        (NONE, "auto", "cgroupfs", "pass"),
    ],
)
def test_daemon_reload(tmp_path, spec, access, cgroup, status):
    where = site(tmp_path, gpus={"count": 2, "access": access})
    answer = docker.DaemonReload().check(engine(runtimes=("nvidia",)), {"CgroupDriver": cgroup}, spec, where)
    assert answer.status == status


def box(*gpus, **more):
    return Snapshot(driver="595.58.03", gpus=gpus, xids=(), **more)


def card(index, free, *holders):
    return Gpu(index, name="card", memory_mib=Memory(97887, 636, free, 97887 - 636 - free), processes=holders)


def test_memory_asked_for_by_vllm(tmp_path):
    foreign = Holder(4242, 81920, "python3", "root", "feedfeedfeed")
    answer = gpu.MemoryFree().check(box(card(0, 97251), card(1, 15331, foreign)), site(tmp_path), frozenset())
    assert answer.status == "fail"
    assert answer.found == (
        "GPU 1: 15.0 GiB of 95.6 GiB free; held by pid 4242 python3 (root, in container feedfeedfeed) with 80.0 GiB"
    )
    assert answer.want == "90% of each"


def test_memory_of_the_running_engine_of_this_deployment_is_its_own(tmp_path):
    own = Holder(4242, 81920, "python3", "root", "feedfeedfeed")
    snapshot = box(card(0, 97251), card(1, 15331, own))
    assert gpu.MemoryFree().check(snapshot, site(tmp_path), frozenset(["feedfeedfeed"])).status == "pass"


@pytest.mark.parametrize(
    ("driver", "image", "status"),
    [
        ("13.2", "12.8", "pass"),
        ("12.4", "13.0", "fail"),
        ("12.4", "12.8", "warn"),
        (None, "12.8", "warn"),
        ("13.0", None, "skip"),
    ],
)
def test_cuda_of_driver_and_image(driver, image, status):
    assert gpu.CudaFits().check(Snapshot(driver="580", cuda_driver=driver), image).status == status


@pytest.mark.parametrize(
    ("listed", "status"),
    [(None, "pass"), ("0,1", "pass"), ("GPU-aa,GPU-bb,2", "pass"), ("", "fail"), ("-1", "fail"), ("0,-1,1", "fail")],
)
def test_cards_that_the_environment_hides(tmp_path, listed, status):
    env = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    assert config.GpusVisible().check(site(tmp_path, engine={"vllm": "0.16.0", "env": env})).status == status


def test_xids_that_may_not_be_read_are_unknown(tmp_path):
    assert gpu.NoXid().check(Snapshot(xids=None), []).status == "warn"
    assert gpu.NoXid().check(Snapshot(xids=()), []).status == "pass"


TWO = box(card(0, 1), card(1, 1))


@pytest.mark.parametrize(
    ("redirecting", "unreadable", "status"),
    [(None, None, "skip"), ((), (), "pass"), (("0000:00:01.1",), (), "warn"), ((), ("0000:00:01.1",), "warn")],
)
def test_acs(redirecting, unreadable, status):
    facts = machine(acs_redirecting=redirecting, acs_unreadable=unreadable)
    answer = link.Acs().check(facts, TWO)
    assert (answer.status, answer.found.startswith("unknown")) == (status, bool(unreadable))


@pytest.mark.parametrize(
    ("mode", "status"), [("off", "pass"), ("passthrough", "pass"), ("translated", "warn"), ("unknown", "warn")]
)
def test_iommu(mode, status):
    assert link.Iommu().check(machine(iommu=Iommu(mode, "said")), TWO).status == status


def test_cards_that_are_not_the_nearest(tmp_path):
    links = (("X", "SYS", "PIX"), ("SYS", "X", "SYS"), ("PIX", "SYS", "X"))
    snapshot = box(card(0, 1), card(1, 1), card(2, 1), links=links, pcie_links=links)
    answer = link.Pairing().check(snapshot, site(tmp_path))
    assert (answer.status, answer.found, answer.want) == ("warn", "the first 2 cards are SYS apart", "PIX: cards 0,2")


@pytest.mark.parametrize(("running", "status"), [(False, "fail"), (True, "pass")])
def test_a_port_in_use_is_fine_when_it_is_ours(tmp_path, running, status):
    taken = MissingError("port 8000 is taken", hint="ss -ltnp")
    assert config.Port().check(site(tmp_path), taken, running).status == status


@pytest.mark.parametrize(("mode", "text", "status"), [(0o600, "k", "pass"), (0o644, "k", "warn"), (0o600, "", "fail")])
def test_the_api_key(tmp_path, mode, text, status):
    (tmp_path / "key").write_text(text)
    (tmp_path / "key").chmod(mode)
    answer = config.ApiKey().check(site(tmp_path, server={"api_key_file": "key"}))
    assert answer.status == status
    assert "secret" not in answer.found


@pytest.mark.parametrize(("shm", "status"), [("64MiB", "warn"), ("16GiB", "pass")])
def test_shared_memory(tmp_path, shm, status):
    assert config.SharedMemory().check(site(tmp_path, limits={"shm": shm})).status == status


LABEL = '{"_C":["compute_80","sm_80","sm_120a"],"_flashmla_C":["sm_90a"],"_vllm_fa2_C":["compute_80","sm_80"]}'


@pytest.mark.parametrize(
    ("label", "capabilities", "status", "found"),
    [
        (LABEL, ((12, 0),), "pass", "compute capability 12.0; compiled by the driver at first use: _vllm_fa2_C; "
         "for other cards only: _flashmla_C"),
        (LABEL, ((7, 5),), "fail", "no code for compute capability 7.5 in _C: compute_80, sm_80, sm_120a"),
        (LABEL, ((7, 5), (12, 0)), "fail", "no code for compute capability 7.5 in _C: compute_80, sm_80, sm_120a"),
        (LABEL, ((9, 0), (12, 0)), "pass", "compute capability 9.0, 12.0; compiled by the driver at first use: "
         "_C, _vllm_fa2_C; for other cards only: _flashmla_C"),
        (LABEL, (), "skip", "no card here, and gpus.name is none whose compute capability is known"),
        (None, ((12, 0),), "skip", "the image is not there, or not one that tells"),
        ('{"_C":["what"]}', ((12, 0),), "warn", "unknown: label kit.gpu-code cannot be read "
         "('what' is not an architecture)"),
    ],
)  # fmt: skip
def test_whether_the_image_has_code_for_the_cards(label, capabilities, status, found):
    answer = image.GpuCode().check({} if label is None else {"kit.gpu-code": label}, capabilities)
    assert (answer.status, answer.found) == (status, found)


def test_without_a_card_the_kind_in_kit_yaml_counts(tmp_path):
    facts = Facts(site(tmp_path, gpus={"count": 2, "name": "NVIDIA RTX PRO 6000 Blackwell"}))
    facts.gpus = Snapshot(driver=None, gpus=())
    assert facts.capabilities == ((12, 0),)
