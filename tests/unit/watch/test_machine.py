"""The edges against a made-up /proc: processes of a container, disk counters."""

from pathlib import Path

from kit.watch.processes import of_container, oom_kills
from kit.watch.resources import Resources, disk_bytes


def process(root: Path, pid: int, inner: int, *, state: str = "S", ticks: int = 100, read: int | None = 4096) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    rest = f"{state} 1 1 1 0 -1 0 0 0 0 0 {ticks} {ticks} 0 0 20 0 9 0 0 0 25 0"
    (folder / "stat").write_text(f"{pid} (VLLM::Worker (TP0)) {rest}\n")
    (folder / "status").write_text(f"Name:\tx\nNSpid:\t{pid}\t{inner}\n")
    if read is not None:
        (folder / "io").write_text(f"rchar: 1\nread_bytes: {read}\n")


def container(root: Path, *, version: int = 2) -> None:
    process(root, 700, 1)
    process(root, 701, 30, ticks=200, read=1 << 20)
    path = "system.slice/docker-abc.scope" if version == 2 else "pids/docker/abc"
    line = "0::/system.slice/docker-abc.scope\n" if version == 2 else "8:pids:/docker/abc\n0::/\n"
    (root / "proc/700/cgroup").write_text(line)
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text("700\n701\n999\n")


def test_processes_of_a_container_by_either_cgroup_version(tmp_path: Path) -> None:
    for version in (1, 2):
        root = tmp_path / str(version)
        container(root, version=version)
        found = of_container(700, root)
        assert found is not None
        assert [(p.pid, p.inner, p.name) for p in found] == [
            (700, 1, "VLLM::Worker (TP0)"),
            (701, 30, "VLLM::Worker (TP0)"),
        ]
        assert found[1].read_bytes == 1 << 20 and found[1].cpu_s == 4.0


def test_nothing_to_see_is_none(tmp_path: Path) -> None:
    assert of_container(700, tmp_path) is None
    assert of_container(0, tmp_path) is None
    process(tmp_path, 700, 1)
    (tmp_path / "proc/700/cgroup").write_text("0::/\n")
    assert of_container(700, tmp_path) is None


def test_rates_from_the_processes_or_else_from_the_whole_machine(tmp_path: Path) -> None:
    container(tmp_path)
    seen = Resources(700, gpus=False, root=tmp_path)
    seen.sample(0.0)
    (tmp_path / "proc/701/io").write_text(f"read_bytes: {11 << 20}\n")
    seen.sample(10.0)
    used = seen.usage(60)
    assert used is not None and used.read_rate == (10 << 20) / 10
    assert not seen.sample(12.0).whole_machine
    whole = Resources(0, gpus=False, root=tmp_path)
    (tmp_path / "proc/diskstats").write_text("8 0 sda 1 2 2048 4 5\n8 1 sda1 1 2 9999 4 5\n7 0 loop0 1 2 5 4 5\n")
    (tmp_path / "sys/block/sda").mkdir(parents=True)
    assert disk_bytes(tmp_path) == 2048 * 512
    assert whole.sample(0.0).whole_machine


def test_kills_for_memory_are_counted_by_either_cgroup_version(tmp_path: Path) -> None:
    process(tmp_path, 700, 1)
    (tmp_path / "proc/700/cgroup").write_text("4:memory:/docker/abc\n0::/system.slice/docker-abc.scope\n")
    assert oom_kills(700, tmp_path) is None
    for path, text in (
        ("memory/docker/abc/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
        ("system.slice/docker-abc.scope/memory.events", "low 0\noom 5\noom_kill 3\n"),
    ):
        file = tmp_path / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True)
        file.write_text(text)
        assert oom_kills(700, tmp_path) == int(text.strip()[-1])
        file.unlink()
