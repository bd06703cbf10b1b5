"""The cards we know (known_gpus.yaml) and how versions of drivers compare. Pure but for reading that file."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class KnownGpu:
    """One entry of known_gpus.yaml; the file says what each key means."""

    id: str
    text: str
    name_prefix: str
    compute_capability: tuple[int, int]
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
    import yaml

    entries = yaml.safe_load(Path(__file__).with_name("known_gpus.yaml").read_text())
    return tuple(
        KnownGpu(
            **{key: entry[key] for key in entry if key not in ("pcie", "compute_capability")},
            compute_capability=tuple(entry["compute_capability"]),
            pcie_gen=entry["pcie"]["gen"],
            pcie_width=entry["pcie"]["width"],
        )
        for entry in entries
    )


def known_gpu(name: str | None) -> KnownGpu | None:
    """The entry for a card of this name, or None."""
    fitting = [known for known in known_gpus() if name and name.startswith(known.name_prefix)]
    return max(fitting, key=lambda known: len(known.name_prefix), default=None)


def version(text: str) -> tuple[int, ...]:
    """A driver or CUDA version as numbers that compare (`580.82` < `580.126.09`)."""
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in text.split("."))
