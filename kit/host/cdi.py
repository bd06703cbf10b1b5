"""CDI: the files that tell a container engine how to hand over GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.parse import json_of, yaml_of

FOLDERS = ("/etc/cdi", "/var/run/cdi")
DRIVER_LIBRARY = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d[\d.]*)$")


@dataclass(frozen=True)
class CdiSpec:
    """What the specs say of `nvidia.com/gpu`: device names, driver versions of the libraries they mount, and device
    nodes that are named there but do not exist. `broken` lists files that cannot be read, with why."""

    files: tuple[str, ...]
    devices: tuple[str, ...]
    drivers: tuple[str, ...]
    missing_nodes: tuple[str, ...]
    broken: tuple[str, ...]


def cdi_spec(folders: Sequence[str] = FOLDERS, root: Path = Path("/")) -> CdiSpec:
    """Read every spec for NVIDIA's GPUs below `folders`; nothing is raised."""
    files: list[str] = []
    names: list[str] = []
    broken: list[str] = []
    nodes: set[str] = set()
    drivers: set[str] = set()
    for path in sorted(p for f in folders for p in (root / f.lstrip("/")).glob("*") if p.suffix in (".yaml", ".json")):
        try:
            spec = _read(path)
            if spec.get("kind") != "nvidia.com/gpu":
                continue
            files.append(str(path))
            names += [str(device["name"]) for device in spec.get("devices", [])]
            edits = [spec.get("containerEdits") or {}, *(d.get("containerEdits") or {} for d in spec["devices"])]
            nodes |= {n.get("hostPath") or n["path"] for edit in edits for n in edit.get("deviceNodes") or []}
            mounts = [m["hostPath"] for edit in edits for m in edit.get("mounts") or []]
            drivers |= {found[1] for found in map(DRIVER_LIBRARY.search, mounts) if found}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            broken.append(f"{path}: {error}")
    missing = sorted(node for node in nodes if not (root / node.lstrip("/")).exists())
    return CdiSpec(tuple(files), tuple(names), tuple(sorted(drivers)), tuple(missing), tuple(broken))


def _read(path: Path) -> dict[str, Any]:
    content = path.read_text()
    found = json_of(content) if path.suffix == ".json" else yaml_of(content)
    if not isinstance(found, dict):
        raise ValueError("no mapping")
    return found
