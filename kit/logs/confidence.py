"""How often an answer found in a certain way is right: measured on labelled logs, not typed in.

`python -m benchmarks.labelled_logs --calibrate` measures the shares over tests/data/logs. Each log is answered twice,
with all rules and without those of its own category, as a failure is that nobody wrote a rule for; shares are smoothed
as (right + 1) / (answers + 2). So a rule's number also counts how often it names what is another's.
"""

from __future__ import annotations

from kit.logs.naming import Cause

# (how the cause was found, rank of the rule or None) -> share of answers whose root and category were right
MEASURED: dict[tuple[str, int | None], float] = {
    ("acceptance", 1): 0.75,
    ("acceptance", None): 0.75,
    ("ended", 2): 0.67,
    ("ended", None): 0.67,
    ("first", 0): 0.97,
    ("first", 1): 0.85,
    ("first", 2): 0.19,
    ("first", None): 0.97,
    ("hang", 0): 0.67,
    ("hang", 1): 0.33,
    ("hang", 2): 0.75,
    ("hang", None): 0.75,
    ("silent", 0): 0.67,
    ("silent", 1): 0.67,
    ("silent", 2): 0.60,
    ("silent", None): 0.80,
}
# not found in the log: the kernel or the engine said so; killed: its own counters say that it was nobody else
SEEN = {"host": 0.95, "killed": 0.9}
_DEFAULT = 0.5


def confidence(cause: Cause) -> float:
    """The measured share for answers found like this one; 0.5 where none was measured."""
    return SEEN.get(cause.basis) or MEASURED.get(key(cause), _DEFAULT)


def key(cause: Cause) -> tuple[str, int | None]:
    """What the confidence of an answer depends on."""
    return cause.basis, cause.rule.rank if cause.rule else None
