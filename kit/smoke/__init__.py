"""The test after the start: fixed prompts, counter differences, gates, and an exact expectation
for reference models.

`kit.smoke.run` is the edge that talks to a server; `counters` and `judge` are pure.
"""

from kit.smoke.judge import Gate, SmokeResult
from kit.smoke.run import smoke

__all__ = ["Gate", "SmokeResult", "smoke"]
