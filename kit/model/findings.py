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

    def __post_init__(self) -> None:
        if self.id not in FINDINGS:
            raise ValueError(f"{self.id} is not among FINDINGS")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "id": self.id,
            "severity": self.severity,
            "found": self.found,
            "want": self.want,
            "fix": self.fix,
        }


FINDINGS = {
    "model-folder": "the folder is not there, or cannot be read",
    "config-missing": "config.json is not there, or is no JSON",
    "config-invalid": "config.json holds a value that cannot be",
    "weights-missing": "no weight files",
    "weights-format": "weights in a format whose headers cannot be read",
    "index-invalid": "the index of the weight files is not usable",
    "index-size": "the index tells another size than the files have",
    "shard-missing": "weight files are not there",
    "shard-unreadable": "weight files cannot be read",
    "shard-not-a-file": "something else in a weight file's place",
    "shard-lfs-pointer": "Git LFS pointers in place of weights",
    "shard-truncated": "weight files that end too early",
    "shard-too-long": "weight files with bytes behind their last tensor",
    "shard-header": "weight files whose header is not valid",
    "shard-unlisted": "weight files that the index does not name",
    "tensor-missing": "tensors or modules that should be there",
    "tensor-duplicate": "tensors that are in two files",
    "tensor-unlisted": "tensors that the index does not name",
    "tensor-shape": "tensors of another shape than config.json says",
    "quantization": "config.json and weights disagree on quantization",
    "drafter-architecture": "no EAGLE-3 drafter, or none that this vLLM takes",
    "drafter-hidden-size": "made for a target of another hidden size",
    "drafter-vocabulary": "made for a target of another vocabulary",
    "drafter-d2t": "the map from draft tokens to the target's is absent or wrong",
    "drafter-t2d": "the two maps of the draft vocabulary disagree",
    "drafter-fc": "fc, which joins the auxiliary states, is absent or of another width",
    "drafter-layers": "the auxiliary layers are not usable",
    "drafter-tensor": "a tensor that the drafter needs is absent",
    "drafter-shape": "a tensor of another shape than the drafter's config says",
    "drafter-norm": "norms that config and tensors, or config and vLLM, disagree on",
    "drafter-positions": "fewer positions than the context has",
    "parallel-layout": "something does not divide over the ranks",
    "weights-too-large": "the weights leave no room on a card",
    "kv-cache-too-small": "one context does not fit the KV cache",
    "utilization-too-high": "no room outside vLLM's share of a card",
    "context-too-long": "a context beyond the model's positions",
}
"""Every id of a finding, of a model, a drafter or a plan. Each belongs to one check of `kit doctor`."""


def some(items: list[str], limit: int = 3) -> str:
    """The first of many names, and how many more there are."""
    shown = ", ".join(items[:limit])
    return f"{shown} and {len(items) - limit} more" if len(items) > limit else shown
