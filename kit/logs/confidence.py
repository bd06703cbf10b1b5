"""How often an answer found in a certain way is right: measured on labelled logs, not typed in.

`benchmarks/calibrate_diagnose.py` measures the shares: on logs whose category's rules are left out for
answers without a rule, on all others with them. They are smoothed as (right + 1) / (answers + 2).
"""

from __future__ import annotations

from kit.logs.naming import Cause

# (how the cause was found, rank of the rule or None) -> share of answers whose category was right
MEASURED: dict[tuple[str, int | None], float] = {}
_DEFAULT = 0.5


def confidence(cause: Cause) -> float:
    """The measured share for answers found like this one; 0.5 where none was measured."""
    return MEASURED.get(key(cause), _DEFAULT)


def key(cause: Cause) -> tuple[str, int | None]:
    """What the confidence of an answer depends on."""
    return cause.basis, cause.rule.rank if cause.rule else None
