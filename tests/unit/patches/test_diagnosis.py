"""What a person sees without a patch is named by the diagnoser, and its remedy names the patch."""

from __future__ import annotations

import pytest

from kit.logs import diagnose_lines
from kit.patches import catalog

KNOWN = catalog.product()
FRAME = "(EngineCore_DP0 pid=7) ERROR 01-02 03:04:05 [core.py:99] "


def log_of(symptom: catalog.Symptom) -> list[str]:
    """The least of a log that shows it, as vLLM 0.16 prints it."""
    if symptom.process == "api_server":
        return [
            "(APIServer pid=1) Traceback (most recent call last):",
            '(APIServer pid=1)   File "/v/vllm/config/speculative.py", line 9, in __init__',
            "(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig",
            f"(APIServer pid=1)   {symptom.example} [type=value_error]",
        ]
    return [
        FRAME + "EngineCore failed to start.",
        FRAME + "Traceback (most recent call last):",
        FRAME + '  File "/v/vllm/v1/spec_decode/eagle.py", line 1366, in load_model',
        FRAME + "    self.drafter.load_model(self.model)",
        FRAME + symptom.example,
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}",
    ]


@pytest.mark.parametrize("patch", KNOWN.patches.values(), ids=list(KNOWN.patches))
def test_the_remedy_names_the_patch(patch: catalog.Patch) -> None:
    cause = diagnose_lines(log_of(patch.symptom)).root_cause
    assert cause is not None and cause.category == "spec-target-unsupported"
    assert any(patch.id in remedy for remedy in cause.remedy), cause.remedy
