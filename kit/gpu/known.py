"""The cards we know (known_gpus.toml) and how versions of drivers compare. Pure but for reading that file."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class KnownGpu:
    """One entry of known_gpus.toml; the file says what each key means."""

    id: str
    text: str
    name_prefix: str
    capability: tuple[int, int]
    memory_mib: int
    driver_min: str
    driver_seen: str
    pcie_gen: int
    pcie_width: int
    nvlinks: int
    open_module: bool


@functools.cache
def known_gpus() -> tuple[KnownGpu, ...]:
    """Every entry of the file."""
    entries = tomllib.loads(Path(__file__).with_name("known_gpus.toml").read_text())["gpu"]
    return tuple(KnownGpu(**{**entry, "capability": tuple(entry["capability"])}) for entry in entries)


def known_gpu(name: str | None) -> KnownGpu | None:
    """The entry for a card of this name, or None."""
    fitting = [known for known in known_gpus() if name and name.startswith(known.name_prefix)]
    return max(fitting, key=lambda known: len(known.name_prefix), default=None)


def version(text: str) -> tuple[int, ...]:
    """A driver or CUDA version as numbers that compare (`580.82` < `580.126.09`)."""
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in text.split("."))
