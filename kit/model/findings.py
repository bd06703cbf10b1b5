"""What is wrong with a model's files, as data: the doctor, `kit model` and the diagnoser print the same findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["fail", "warn"]


@dataclass(frozen=True)
class Finding:
    """One thing wrong: `id` names its kind and never changes, `found` and `want` are for people, `fix` is what to do.

    `fail`: the engine will not start, or will start and be wrong. `warn`: it may.
    """

    id: str
    severity: Severity
    found: str
    want: str
    fix: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "id": self.id,
            "severity": self.severity,
            "found": self.found,
            "want": self.want,
            "fix": self.fix,
        }


def some(items: list[str], limit: int = 3) -> str:
    """The first of many names, and how many more there are."""
    shown = ", ".join(items[:limit])
    return f"{shown} and {len(items) - limit} more" if len(items) > limit else shown
