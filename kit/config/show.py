"""Every value in force, with its source; and the reference page of kit.yaml's keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel

from kit.config.deployment import Deployment
from kit.config.schema import Kit
from kit.config.tree import KeyPath, dotted


@dataclass(frozen=True)
class Setting:
    """One value in force: its key, its text (as JSON), its value, and where it came from."""

    key: str
    text: str
    value: Any
    source: str


def settings(deployment: Deployment) -> list[Setting]:
    """All leaf values in the order of the schema."""
    tree = deployment.kit.model_dump(by_alias=True)
    return list(_leaves(tree, (), deployment.sources))


def _leaves(value: Any, path: KeyPath, sources: dict[KeyPath, str]) -> Iterator[Setting]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if value and items is not None:
        for key, inner in items:
            yield from _leaves(inner, (*path, key), sources)
        return
    source = next((sources[path[:n]] for n in range(len(path), 0, -1) if path[:n] in sources), "default")
    if source.split(":")[0].endswith((".yaml", ".yml")) and path not in sources:
        source = "default"
    yield Setting(dotted(path), json.dumps(value, ensure_ascii=False), value, source)


def reference_page() -> str:
    """docs/kit-yaml.md, made from the models' own descriptions."""
    lines = ["# The keys of kit.yaml", "", "Generated from `kit/config/schema.py`; `make docs` writes it anew.", ""]
    lines += ["| key | what it means | default |", "| --- | --- | --- |"]
    lines += [f"| `{key}` | {text} | {default} |" for key, text, default in _rows(Kit, "")]
    return "\n".join(lines) + "\n"


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        options = (field.annotation, *get_args(field.annotation))
        inner = next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)
        if inner is not None:
            is_list = str(field.annotation).startswith("list")
            yield from _rows(inner, f"{key}[]." if is_list else f"{key}.")
            continue
        default = "**needed**" if field.is_required() else f"`{json.dumps(_default(model, name, field.default))}`"
        yield key, (field.description or "").replace("|", "\\|"), default


def _default(model: type[BaseModel], name: str, value: Any) -> Any:
    if isinstance(value, int) and "Size" in str(model.__annotations__[name]):
        from kit.config.schema import format_size

        return format_size(value)
    return value
