"""Reading a wheel, and `kit patches check` on one."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kit.errors import IntegrityError, MissingError, UsageError
from kit.patches.source import fetch, read_wheel

NAME = "vllm-0.16.0-cp38-abi3-manylinux_2_31_x86_64.whl"


def wheel(folder: Path, **files: str) -> Path:
    path = folder / NAME
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vllm/__init__.py", "")
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_only_the_wanted_files_are_read(tmp_path: Path) -> None:
    source = read_wheel(wheel(tmp_path, **{"vllm/a.py": "é = 1\r\n"}), ["vllm/a.py", "vllm/b.py"])
    assert (source.vllm, source.texts) == ("0.16.0", {"vllm/a.py": "é = 1\r\n", "vllm/b.py": None})


def test_what_is_no_wheel_of_vllm(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not named as a wheel of vLLM is"):
        read_wheel(tmp_path / "torch-2.9.1-cp311-cp311-linux_x86_64.whl", [])
    with pytest.raises(MissingError, match="cannot read"):
        read_wheel(tmp_path / NAME, [])
    (tmp_path / NAME).write_bytes(wheel(tmp_path).read_bytes()[:-30])
    with pytest.raises(IntegrityError, match="not a sound wheel"):
        read_wheel(tmp_path / NAME, [])


def test_a_release_that_was_read_once_is_not_fetched_again(tmp_path: Path) -> None:
    kept = {"vllm": "0.16.0", "wheel": NAME, "sha256": "0" * 64, "texts": {"vllm/a.py": "x", "vllm/b.py": None}}
    (tmp_path / "vllm-0.16.0.json").write_text(json.dumps(kept))
    said: list[str] = []
    assert fetch("0.16.0+cpu", ["vllm/a.py"], tmp_path, said.append).texts["vllm/a.py"] == "x"
    assert said == []


def test_check_on_a_wheel_whose_files_are_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kit", "patches", "check", "--json", "--wheel", str(wheel(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"], report["vllm"]) == (3, "fail", "0.16.0")
    assert {entry["outcome"] for entry in report["patches"]} == {"broken"}


def test_check_shows_the_hunk_that_does_not_apply(tmp_path: Path) -> None:
    text = (
        "def verify(self):\n    kinds = ['llama']\n"
        "    return any(kind in self.text_config.model_type for kind in kinds)\n"
    )
    path = wheel(tmp_path, **{"vllm/config/speculative.py": text})
    command = [sys.executable, "-m", "kit", "patches", "check", "--json", "--wheel", str(path)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    first = report["patches"][0]
    assert (first["id"], first["state"], first["outcome"]) == ("eagle3-target-types", "needed", "fails")
    assert first["evidence"][2].startswith("hunk 1 does not apply to vllm/config/speculative.py: line 694")
