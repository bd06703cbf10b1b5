"""Fixtures around the stand-in driver library, for the conftest of a folder of tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.standin import standin

ROOT = Path(__file__).parents[2]
__all__ = ["kit_json", "library", "machine"]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the stand-in `libnvidia-ml.so.1`."""
    return standin.build_library(tmp_path_factory.mktemp("standin")).parent


@pytest.fixture
def machine(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | dict[str, Any]], Path]:
    """Makes this the machine of a profile (by name, or given whole); returns its (empty) /proc and /sys root.

    The asking of NVML happens in a child process, which finds the library through the environment set here.
    """

    def become(profile: str | dict[str, Any]) -> Path:
        path = tmp_path / "profile"
        path.write_text(standin.flat(standin.load(profile) if isinstance(profile, str) else profile))
        root = tmp_path / "host"
        root.mkdir(exist_ok=True)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
        monkeypatch.setenv("KIT_STANDIN_PROFILE", str(path))
        monkeypatch.setenv("KIT_HOST_ROOT", str(root))
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        return root

    return become


@pytest.fixture
def kit_json() -> Callable[..., tuple[dict[str, Any], int]]:
    """Runs a verb of `kit` with --json as a process; its document and exit code."""

    def run(verb: str, *arguments: str) -> tuple[dict[str, Any], int]:
        done = subprocess.run([sys.executable, "-m", "kit", verb, "--json", *arguments], capture_output=True, text=True)
        return json.loads(done.stdout), done.returncode

    return run
