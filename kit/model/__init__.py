"""What is known of a model before it is loaded: its config, its files, and whether target and drafter fit.

`folder` reads (the only module here that touches model files, with `manifest`), the others judge plain data:
`safetensors` a header, `weights` the files against each other, `target` against the config, `drafter` against the
target.
"""

from kit.model.drafter import Use, judge_drafter
from kit.model.findings import Finding
from kit.model.folder import read_folder
from kit.model.target import ModelFacts, judge_target

__all__ = ["Finding", "ModelFacts", "Use", "judge_drafter", "judge_target", "read_folder"]
