"""The target's files, and whether they fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from kit.checks.base import Answer, Check, worst
from kit.config import Deployment

if TYPE_CHECKING:
    from kit.model import Finding, ModelFacts
    from kit.plan.plan import Plan

GIB = 1 << 30
GB = 10**9


class ModelCheck(Check):
    """A check that is made of findings of `kit.model` or `kit.plan`: `ids` are those that belong to it."""

    ids: ClassVar[tuple[str, ...]] = ()

    def judged(self, findings: Iterable[Finding], well: str) -> Answer:
        """The gravest of the findings that belong here, or `well`."""
        mine = [finding for finding in findings if finding.id in self.ids]
        if not mine:
            return self.good(well)
        return worst([self.bad(finding.found, finding.want, finding.fix, finding.severity) for finding in mine])


class There(ModelCheck):
    """The target's folder must be there with a readable config.json: all else is judged by it."""

    id = "model.there"
    title = "the target is there, with its config"
    ids = ("model-folder", "config-missing", "config-invalid")

    def check(self, target: ModelFacts) -> Answer:
        name = target.config.architecture if target.config else None
        return self.judged(target.findings, f"{target.name}: {name}")


class Files(ModelCheck):
    """Weight files are read by their headers: a file that was cut off, is a Git LFS pointer, or never came is found now
    and not after minutes of loading. kit model verify compares every byte."""

    id = "model.files"
    title = "the target's weight files are whole"
    requires = ("model.there",)
    ids = (
        "weights-missing",
        "weights-format",
        "index-invalid",
        "index-size",
        "shard-missing",
        "shard-unreadable",
        "shard-not-a-file",
        "shard-lfs-pointer",
        "shard-truncated",
        "shard-too-long",
        "shard-header",
        "shard-unlisted",
    )

    def check(self, target: ModelFacts) -> Answer:
        weights = target.weights
        well = f"{weights.nbytes / GB:.2f} GB in {len(weights.files)} files"
        return self.judged(target.findings, well)


class Tensors(ModelCheck):
    """The files must hold every tensor once, in the shapes that config.json says, quantized as it says."""

    id = "model.tensors"
    title = "the target's tensors are complete"
    requires = ("model.files",)
    ids = ("tensor-missing", "tensor-duplicate", "tensor-unlisted", "tensor-shape", "quantization")

    def check(self, target: ModelFacts) -> Answer:
        config, weights = target.config, target.weights
        method = config.quantization if config and config.quantization else "not quantized"
        return self.judged(target.findings, f"{len(weights.tensors)} tensors, {method}")


class Supported(Check):
    """Some releases of vLLM refuse a target only after weights are loaded. What is known of such, for this target with
    this speculative method, must be mended by a patch in the image."""

    id = "model.supported"
    title = "this vLLM takes this target with this speculative method"
    requires = ("model.there",)

    def check(self, target: ModelFacts, deployment: Deployment) -> Answer:
        from kit.patches.catalog import product
        from kit.patches.plan import incompatibilities, plan

        kit = deployment.kit
        method = kit.speculative.method if kit.speculative else None
        model_type = target.config.model_type if target.config else None
        known = product()
        baked = [] if kit.engine.existing else plan(kit.engine.vllm, kit.engine.patches, known, method=method).ids
        stops = incompatibilities(kit.engine.vllm, model_type, method, known, baked=baked)
        open_ones = [stop for stop in stops if not stop.baked]
        if not stops:
            return self.good(f"vLLM {kit.engine.vllm}, {model_type}: nothing known against it")
        if not open_ones:
            return self.good(f"vLLM {kit.engine.vllm}, {model_type}: mended by {', '.join(s.patch.id for s in stops)}")
        if kit.engine.existing:
            names = ", ".join(stop.patch.id for stop in open_ones)
            return self.bad(f"{kit.engine.existing} may lack: {names}", "an image with these patches", level="warn")
        return worst([self.bad(f"{s.patch.title}: {s.patch.symptom.example}", "", s.remedy) for s in open_ones])


class Layout(ModelCheck):
    """Heads, experts and columns must divide over the ranks, and there must be a card for each rank."""

    id = "model.layout"
    title = "the target divides over the ranks"
    requires = ("model.tensors",)
    ids = ("parallel-layout",)

    def check(self, plan: Plan) -> Answer:
        setup = plan.setup
        return self.judged(plan.findings, f"tensor {setup.tensor}, pipeline {setup.pipeline}")


class Memory(ModelCheck):
    """What a card must hold is added up before anything is loaded: weights, activations, graphs, and a KV cache for one
    whole context at least. kit plan shows the sum and the nearest settings that fit."""

    id = "model.memory"
    title = "the target fits the cards' memory"
    requires = ("model.tensors", "model.layout")
    ids = ("weights-too-large", "kv-cache-too-small", "utilization-too-high")

    def check(self, plan: Plan) -> Answer:
        well = (
            f"{plan.weights / GIB:.2f} GiB of weights on each rank, KV cache of {plan.tokens:,} tokens: "
            f"{plan.concurrency:.1f} requests of {plan.context:,}"
        )
        return self.judged(plan.findings, well)


class Context(ModelCheck):
    """vLLM refuses a context longer than the model has positions."""

    id = "model.context"
    title = "the context is within the model's positions"
    requires = ("model.tensors",)
    ids = ("context-too-long",)

    def check(self, plan: Plan) -> Answer:
        return self.judged(plan.findings, f"{plan.context:,} tokens")
