"""What the smoke test asks: for reference models token prompts with a known answer, for real ones
sixteen chat prompts of mixed kind, or a file of the user's."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from kit.config import Deployment
from kit.errors import MissingError, UsageError
from kit.parse import yaml_of

REFERENCE_TOKENS = (5, 64, 99)


@dataclass(frozen=True)
class Prompt:
    """One request: `name` for people, `text` to send, `token` its number for a reference model."""

    name: str
    text: str
    token: int | None = None


def prompts_of(deployment: Deployment) -> list[Prompt]:
    """The prompts of a deployment. Raises MissingError or UsageError for a prompts file that is no good."""
    if deployment.kit.model.reference:
        return [Prompt(f"t{token}", f"t{token}", token) for token in REFERENCE_TOKENS]
    chosen = deployment.kit.smoke.prompts
    if chosen is None:
        return _read(resources.files("kit.smoke").joinpath("prompts.yaml").read_text(), "the kit's prompts")
    return _read(_file_text(deployment.path(chosen)), chosen)


def body_of(deployment: Deployment, prompt: Prompt) -> tuple[str, dict[str, Any]]:
    """The path and JSON body of a request: greedy, of a fixed length at most."""
    common = {
        "model": deployment.kit.model.served_name,
        "max_tokens": deployment.kit.smoke.max_tokens,
        "temperature": 0,
        "seed": 0,
    }
    if prompt.token is not None:
        return "/v1/completions", common | {"prompt": prompt.text, "ignore_eos": True}
    return "/v1/chat/completions", common | {"messages": [{"role": "user", "content": prompt.text}]}


def _file_text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise MissingError(
            f"cannot read the prompts file {path}: {error}", hint="set smoke.prompts to a YAML file"
        ) from None


def _read(text: str, where: str) -> list[Prompt]:
    hint = "a prompts file is a YAML list of {name: ..., text: ...}"
    try:
        items = yaml_of(text)
    except ValueError as error:
        raise UsageError(f"{where} is not YAML: {error}", hint=hint) from None
    if not isinstance(items, list) or not items:
        raise UsageError(f"{where} holds no list of prompts", hint=hint)
    prompts = []
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict) or not isinstance(item.get("text"), str) or not item["text"].strip():
            raise UsageError(f"{where}: item {number} has no text", hint=hint)
        prompts.append(Prompt(str(item.get("name") or number), item["text"]))
    return prompts
