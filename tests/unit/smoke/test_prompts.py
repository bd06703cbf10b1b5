"""A prompts file of the user's: read, or refused with words."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config import Deployment, Kit
from kit.errors import MissingError, UsageError
from kit.smoke.prompts import prompts_of


def deployment(folder: Path, text: str | bytes | None) -> Deployment:
    if text is not None:
        (folder / "prompts.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    kit = Kit.model_validate(
        {
            "name": "x",
            "engine": {"vllm": "0.32.0", "device": "cpu"},
            "model": {"path": "model", "served_name": "x"},
            "smoke": {"prompts": "prompts.yaml"},
        }
    )
    return Deployment(kit, folder / "kit.yaml", {})


def test_prompts_of_a_file(tmp_path: Path) -> None:
    found = prompts_of(deployment(tmp_path, "- {name: one, text: Say hello.}\n- {name: two, text: Count.}\n"))
    assert [(prompt.name, prompt.text) for prompt in found] == [("one", "Say hello."), ("two", "Count.")]


@pytest.mark.parametrize("text", ["[" * 5000, "- 2026-99-99", "a: [1", "text: x", "- {name: one}", "[]"])
def test_a_file_that_is_no_list_of_prompts_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        prompts_of(deployment(tmp_path, text))
    assert caught.value.hint == "a prompts file is a YAML list of {name: ..., text: ...}"


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"prompts\.yaml"):
        prompts_of(deployment(tmp_path, None))
