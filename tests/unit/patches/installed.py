"""A tiny stand-in for an installed vLLM and a patch for it, run by the real program in a real process."""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.patches.inside.common import sha256
from kit.patches.stage import PROGRAM

GATE = """\
class Config:
    def check(self, model_type):
        supported = [
            "llama",
            "qwen",
        ]
        if not any(name in self.target.model_type for name in supported):
            raise ValueError(f"only {supported}")
"""
GATE_PATCHED = GATE.replace(
    '            "qwen",\n', '            "qwen",\n            # kit patch: gate\n            "kimi_k2",\n'
)
PATH = "vllm/config.py"


def diff_of(old: str, new: str, path: str = PATH) -> str:
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{path}", f"b/{path}")
    return "Accept kimi_k2\n\n" + "".join(lines)


@dataclass
class Site:
    """A site-packages with a vLLM of one module, a series for it, and the way to run the program on them."""

    root: Path

    @property
    def site(self) -> Path:
        return self.root / "site-packages"

    @property
    def module(self) -> Path:
        return self.site / PATH

    @property
    def record(self) -> Path:
        return self.root / "patches.json"

    def entry(self, diff: str, new: str, **changes: Any) -> dict[str, Any]:
        return {
            "id": "gate",
            "title": "Accept kimi_k2",
            "purpose": "product",
            "file": "01-gate.patch",
            "sha256": sha256(diff.encode()),
            "files": {PATH: {"before": sha256(GATE.encode()), "after": sha256(new.encode())}},
            "probe": {"kind": "model-types-accepted", "files": [PATH], "types": ["kimi_k2"]},
            "live": ["vllm.config:Config.check"],
            **changes,
        }

    def series(self, new: str = GATE_PATCHED, vllm: str = "0.16.0", diff: str | None = None, **changes: Any) -> None:
        """Write the series that turns GATE into `new`."""
        text = diff_of(GATE, new) if diff is None else diff
        self.write_series([self.entry(text, new, **changes)], vllm)
        (self.root / "series" / "01-gate.patch").write_text(text)

    def write_series(self, entries: list[dict[str, Any]], vllm: str = "0.16.0") -> None:
        (self.root / "series").mkdir(exist_ok=True)
        content = {"schema": "kit.patch-series/1", "vllm": [vllm], "patches": entries}
        (self.root / "series" / "series.json").write_text(json.dumps(content))

    def run(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        options = ["--record", str(self.record)]
        if verb != "verify":
            options += ["--site", str(self.site)]
        if verb == "apply":
            options += ["--series", str(self.root / "series")]
        command = [sys.executable, str(PROGRAM), verb, *options, *more]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def good(self, *verbs: str) -> None:
        for verb in verbs:
            done = self.run(verb)
            assert done.returncode == 0, done.stderr
