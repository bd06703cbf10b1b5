"""Reference models: a tiny target and drafters with constructed weights, whose acceptance is known exactly.

They stand in for real models wherever the way from drafter to counters is to be proven: the smoke test compares
vLLM's counters with `predict`, and any difference means that something in between is broken. `write` puts them on
disk; `predict` and `expected_text` say what a server must then answer.
"""

from kit.reference.drafters import DRAFTERS
from kit.reference.simulate import Prediction, expected_text, predict
from kit.reference.store import FORMS, ReferenceSet, write

__all__ = ["DRAFTERS", "FORMS", "Prediction", "ReferenceSet", "expected_text", "predict", "write"]
