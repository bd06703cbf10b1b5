"""The locks that the repository carries hold: no input was changed without its lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config import load
from kit.lock import deployment as locks

ROOT = Path(__file__).parents[3]
LOCKED = sorted(path.with_suffix(".yaml") for path in [*ROOT.glob("kit.lock"), *(ROOT / "examples").glob("*.lock")])


def test_production_and_demonstration_are_locked():
    assert [str(path.relative_to(ROOT)) for path in LOCKED] == ["examples/embedded.yaml", "kit.yaml"]


@pytest.mark.parametrize("file", LOCKED, ids=lambda path: path.stem)
def test_the_lock_holds(file: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("KIT_FILE", "KIT_MODEL_PATH", "KIT_SERVER_PORT"):
        monkeypatch.delenv(name, raising=False)
    locks.check(load(file))
