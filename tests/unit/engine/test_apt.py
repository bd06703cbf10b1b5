"""apt as a downloader."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.engine import apt
from kit.errors import MissingError


def test_a_program_that_cannot_be_fetched_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def out_of_reach(self: apt.Apt) -> None:
        raise MissingError("the Debian archive is out of reach", hint="apt-get update")

    monkeypatch.setattr(apt.Apt, "update", out_of_reach)
    monkeypatch.setattr(apt, "available", lambda: True)
    with pytest.raises(MissingError, match="no-such-tool is not installed, and apt cannot fetch it") as caught:
        apt.program("no-such-tool", tmp_path)
    assert "apt-get install no-such-tool" in str(caught.value.hint)
