"""The diagnoser: names the first cause in any vLLM log.

Reading -> un-weaving into one stream per process -> tracebacks -> failures of each run -> the first
cause -> its name by a rule. The front of it all: `diagnose_file`, `Follower`, `render_text`, `to_json`.
"""

from __future__ import annotations

from kit.logs.answer import render_text, to_json
from kit.logs.diagnose import conclude, diagnose_file, diagnose_lines
from kit.logs.follow import Follower
from kit.logs.model import Diagnosis, RootCause

__all__ = [
    "Diagnosis",
    "Follower",
    "RootCause",
    "conclude",
    "diagnose_file",
    "diagnose_lines",
    "render_text",
    "to_json",
]
