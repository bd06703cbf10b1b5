"""What is wrong with the cards or their links: the form of a finding, and all rules run in order. Pure.

A rule is a function from a snapshot (and what is expected of the box) to findings; the rules stand in `rules_driver`,
`rules_cards` and `rules_links`. Put a new one there, with a profile in tests/standin/profiles/ that has the fault.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.gpu.snapshot import Gpu


@dataclass(frozen=True)
class Finding:
    """One fault. `level` is warn (it works, but worse) or fail (a load will fail, or has no business starting).

    `gpus` are NVML indices, empty when it is about the box; `fix` is what to do, best a command.
    """

    id: str
    level: str
    found: str
    want: str
    fix: str
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class Expected:
    """What a deployment wants of the box; None where it does not say."""

    count: int | None = None
    name_prefix: str | None = None


def cards(gpus: list[Gpu] | tuple[Gpu, ...]) -> str:
    """`GPU 3` or `GPUs 0, 2`."""
    return numbers([gpu.index for gpu in gpus])


def numbers(indices: list[int]) -> str:
    """`GPU 3` or `GPUs 0, 2`, from indices."""
    return f"GPU {indices[0]}" if len(indices) == 1 else f"GPUs {', '.join(map(str, indices))}"


def size(mib: int) -> str:
    """Memory for people: `80.0 GiB`."""
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib} MiB"
