"""What the tests with real Docker share: `kit` as a process, and deployments of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EMBEDDED = ROOT / "examples" / "embedded.yaml"


@dataclass(frozen=True)
class Done:
    """What a `kit` process printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.out))


def kit_command(*args: str | Path) -> list[str]:
    return [sys.executable, "-m", "kit", *map(str, args)]


def kit_environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KIT_") or k == "KIT_HOME"}
    return kept | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}


def with_ctrl_c() -> None:
    """For a child that will be sent SIGINT: a background job of a shell inherits that it is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run_kit(*args: str | Path, timeout: float = 600, cwd: Path = ROOT) -> Done:
    """Run one verb as a person would, and return how it ended."""
    done = subprocess.run(
        kit_command(*args), cwd=cwd, env=kit_environment(), capture_output=True, text=True, timeout=timeout
    )
    return Done(done.returncode, done.stdout, done.stderr)


@dataclass
class Box:
    """One deployment of a test: its folder and kit.yaml; `kit` runs a verb on it."""

    folder: Path
    file: Path
    port: int

    def kit(self, verb: str, *args: str, timeout: float = 600) -> Done:
        return run_kit(verb, "-f", self.file, *args, timeout=timeout)

    @property
    def latest(self) -> Path:
        return self.folder / ".kit" / "test" / "runs" / "latest"


def laid_over(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    merged = old | new
    return {key: value for key, value in merged.items() if value is not None}
