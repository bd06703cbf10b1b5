"""What NVML answered, call by call, before anyone gives it a meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# NVML's return codes (nvmlReturn_t) by the word used for them here; any other code is "error".
REASONS = {
    1: "uninitialized",
    2: "invalid-argument",
    3: "not-supported",
    4: "no-permission",
    9: "driver-not-loaded",
    10: "timeout",
    12: "library-not-found",
    13: "function-not-found",
    15: "lost",
    16: "reset-required",
    18: "version-mismatch",
    25: "version-not-supported",
    28: "lost",
}
HUNG, CRASHED, NOT_ASKED = "hung", "crashed", "not-asked"
# The driver or the card has no such thing: a fact about the model, not a fault of this machine.
HARMLESS = frozenset({"not-supported", "function-not-found", "invalid-argument", "version-not-supported"})


@dataclass(frozen=True)
class Record:
    """One answer. `reason` is None for a good one, else a word of REASONS, or hung, crashed, not-asked, error.

    `gpu` and `peer` are NVML indices, None where a call is not about a card (or a pair); `seconds` is the time
    inside the driver.
    """

    field: str
    call: str
    gpu: int | None = None
    peer: int | None = None
    value: Any = None
    reason: str | None = None
    text: str = ""
    seconds: float = 0.0

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> Record:
        """The record in one line of `kit.gpu.nvml`."""
        reason = None
        if "code" in line:
            reason = REASONS.get(line["code"], "error")
        return cls(
            field=line["field"],
            call=line["call"],
            gpu=line["gpu"],
            peer=line["peer"],
            value=None if reason else line["value"],
            reason=reason,
            text=line.get("text", ""),
            seconds=line["seconds"],
        )


class Answers:
    """The records of one probe by what they are about; a later one replaces an earlier one."""

    def __init__(self, records: Iterable[Record]):
        self.by_key = {(r.field, r.gpu, r.peer): r for r in records}

    def value(self, field: str, gpu: int | None = None, peer: int | None = None) -> Any:
        """The value answered, or None."""
        record = self.by_key.get((field, gpu, peer))
        return record.value if record else None

    def reason(self, field: str, gpu: int | None = None, peer: int | None = None) -> str | None:
        """Why there is no value: a word of REASONS; None for a good answer."""
        record = self.by_key.get((field, gpu, peer))
        return record.reason if record else NOT_ASKED
