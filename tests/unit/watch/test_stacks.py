"""Where processes stand, from outside: what py-spy is asked, and what is kept when it is not there or refuses."""

import sys
from pathlib import Path

import pytest

from kit.watch.processes import ProcessSample
from kit.watch.stacks import from_outside, py_spy
from tests.unit.watch.test_machine import process


def sample(state: str, pid: int = 701) -> ProcessSample:
    return ProcessSample(pid, 30, "VLLM::Worker", state, 1.0, None, 0)


def test_a_stopped_process_is_read_without_being_stopped_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert py_spy(sample("S")) == ["py-spy", "dump", "--pid", "701"]
    assert py_spy(sample("T")) == ["py-spy", "dump", "--nonblocking", "--pid", "701"]
    (tmp_path / "py-spy").touch()
    assert py_spy(sample("S"))[0] == str(tmp_path / "py-spy")


def test_what_py_spy_says_is_kept_and_so_is_why_it_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(tmp_path, 701, 30)
    task = tmp_path / "proc/701/task/701"
    task.mkdir(parents=True)
    (task / "stat").write_text("701 (x) S 1")
    (task / "comm").write_text("worker\n")
    (task / "wchan").write_text("futex_wait\n")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    without = from_outside([sample("S")], tmp_path)
    assert "VLLM::Worker pid 30 (here 701), state S" in without and "1 x worker S in futex_wait" in without
    assert "py-spy" not in without
    program = tmp_path / "py-spy"
    program.write_text("#!/bin/sh\necho 'Error: Permission Denied' >&2\nexit 1\n")
    program.chmod(0o755)
    assert "py-spy ended with status 1: Error: Permission Denied" in from_outside([sample("S")], tmp_path)
