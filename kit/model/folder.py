"""Reading a model's folder: everything that can be known without the weights themselves. The only file access here.

What is read is kept as plain data in a `ModelFolder`; the judging modules (`weights`, `target`, `drafter`) never touch
the disk. A file that cannot be read is data too: its fault is kept in its place.
"""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.model.safetensors import LOCATED, BadShard, Header, Tensor, read_header

INDEX = "model.safetensors.index.json"
MAX_JSON = 256 << 20  # an index of a million tensors is below 150 MB
MAX_SMALL = 16 << 20


@dataclass(frozen=True)
class Fault:
    """Why a file could not be used: one of `safetensors.FAULTS` or "json", and the text for people."""

    kind: str
    text: str


@dataclass(frozen=True)
class ModelFolder:
    """A model folder as read.

    `config` and `index` are the parsed JSON, None where the file is absent, or a Fault. `shards` maps each
    *.safetensors file to its Header or Fault. `small` holds the data of LOCATED. `other_weights` names weight
    files of other formats.
    """

    path: Path
    config: Mapping[str, Any] | Fault | None
    index: Mapping[str, Any] | Fault | None
    shards: Mapping[str, Header | Fault]
    small: Mapping[str, bytes] = field(default_factory=dict)
    other_weights: tuple[str, ...] = ()
    fault: Fault | None = None


def read_folder(path: Path) -> ModelFolder:
    """Read the facts of the model in `path`; never raises for what is in it, or for its absence."""
    try:
        names = sorted(entry.name for entry in path.iterdir())
    except OSError as error:
        kind = "missing" if isinstance(error, FileNotFoundError) else "unreadable"
        return ModelFolder(path, None, None, {}, fault=Fault(kind, f"{path}: {error.strerror}"))
    with _no_collector():
        return _read(path, names)


def _read(path: Path, names: list[str]) -> ModelFolder:
    kinds: dict[tuple[str, tuple[int, ...]], Tensor] = {}
    shards: dict[str, Header | Fault] = {}
    for name in names:
        if name.endswith(".safetensors"):
            try:
                shards[name] = read_header(path / name, kinds)
            except BadShard as bad:
                shards[name] = Fault(bad.fault, str(bad))
    return ModelFolder(
        path,
        config=_read_json(path / "config.json"),
        index=_read_json(path / INDEX),
        shards=shards,
        small=_read_small(path, shards),
        other_weights=tuple(name for name in names if name.endswith((".bin", ".pt", ".pth", ".gguf", ".incomplete"))),
    )


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    """Without the cycle collector, which would walk a million plain objects of JSON again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read_json(path: Path) -> Mapping[str, Any] | Fault | None:
    try:
        if not path.exists() and not path.is_symlink():
            return None
        if not path.is_file():
            return Fault("missing", f"{path.name} is a link to a file that is not there, or no file")
        if path.stat().st_size > MAX_JSON:
            return Fault("json", f"{path.name} is {path.stat().st_size:,} bytes long: no such file is")
        value = json.loads(path.read_bytes().decode())
    except OSError as error:
        return Fault("unreadable", f"{path.name}: {error.strerror}")
    except ValueError as error:  # not UTF-8 or not JSON
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        return Fault("json", f"{path.name} is not JSON{where}: {str(error)[:200]}")
    except RecursionError:
        return Fault("json", f"{path.name} is nested without end")
    return value if isinstance(value, dict) else Fault("json", f"{path.name} is not a JSON object")


def _read_small(path: Path, shards: Mapping[str, Header | Fault]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for file, header in shards.items():
        if isinstance(header, Fault):
            continue
        for name in LOCATED:
            tensor = header.tensors.get(name)
            if tensor and tensor.nbytes <= MAX_SMALL:
                try:
                    with (path / file).open("rb") as handle:
                        handle.seek(header.begins[name])
                        found[name] = handle.read(tensor.nbytes)
                except OSError:
                    continue
    return found
