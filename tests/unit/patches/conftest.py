"""A site-packages with the tiny stand-in of `installed`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.patches.installed import GATE, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    (made.site / "vllm").mkdir(parents=True)
    (made.site / "vllm" / "__init__.py").write_text("")
    made.module.write_text(GATE)
    info = made.site / "vllm-0.16.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: vllm\nVersion: 0.16.0+cpu\n")
    made.series()
    return made
