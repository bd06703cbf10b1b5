"""The drafter's files, against the target and this vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from kit.checks import model
from kit.checks.base import Answer, Check
from kit.config import Deployment

if TYPE_CHECKING:
    from kit.model import ModelFacts

CPU_SPECULATES_SINCE = Version("0.20")


class DrafterCheck(model.ModelCheck):
    """A check that only a deployment with a drafter needs."""

    well = "fits the target"

    def spared(self, deployment: Deployment) -> str | None:
        return None if deployment.kit.speculative else "this deployment does not speculate"

    def check(self, drafter: ModelFacts) -> Answer:
        return self.judged(drafter.findings, self.well)


class There(DrafterCheck):
    """The drafter's folder must be there with a readable config.json, and be of a kind that this vLLM takes."""

    id = "drafter.there"
    title = "the drafter is there, of a kind this vLLM takes"
    requires = ("model.there",)
    ids = ("model-folder", "config-missing", "config-invalid", "drafter-architecture")

    def check(self, drafter: ModelFacts) -> Answer:
        name = drafter.config.architecture if drafter.config else None
        return self.judged(drafter.findings, f"{drafter.name}: {name}")


class Whole(DrafterCheck):
    """The drafter is loaded after the target: a file of it that is cut off costs the whole load."""

    id = "drafter.files"
    title = "the drafter's weight files are whole"
    requires = ("drafter.there",)
    ids = (*model.Files.ids, "tensor-missing", "tensor-duplicate", "tensor-unlisted", "tensor-shape", "quantization")

    def check(self, drafter: ModelFacts) -> Answer:
        weights = drafter.weights
        well = f"{weights.nbytes / model.GB:.2f} GB, {len(weights.tensors)} tensors"
        return self.judged(drafter.findings, well)


class Target(DrafterCheck):
    """Hidden size and vocabulary must be the target's: a wrong one dies after the load, often as a bare assertion."""

    id = "drafter.target"
    title = "the drafter was made for a target like this"
    requires = ("drafter.there",)
    ids = ("drafter-hidden-size", "drafter-vocabulary")


class Vocabulary(DrafterCheck):
    """A reduced vocabulary needs d2t. Without it the server starts, answers, and no guess is ever right."""

    id = "drafter.vocabulary"
    title = "draft tokens map to the target's"
    requires = ("drafter.files",)
    ids = ("drafter-d2t", "drafter-t2d")
    well = "complete"


class States(DrafterCheck):
    """Auxiliary states must be of different layers of the target and as many as fc joins. Otherwise the server starts
    and dies at the first request, or reads memory that nothing wrote."""

    id = "drafter.states"
    title = "the drafter's auxiliary states are there, and fc joins them"
    requires = ("drafter.files",)
    ids = ("drafter-fc", "drafter-layers")
    well = "as many layers as fc joins"


class Tensors(DrafterCheck):
    """The drafter's own tensors must be complete and agree with its config, and this vLLM must read every flag that
    changes the computation: a flag that is not read makes guesses wrong without a word."""

    id = "drafter.tensors"
    title = "the drafter's tensors agree with its config"
    requires = ("drafter.files",)
    ids = ("drafter-tensor", "drafter-shape", "drafter-norm")
    well = "complete"


class Positions(DrafterCheck):
    """Before vLLM 0.27 a drafter with fewer positions than the context guesses wrongly beyond them."""

    id = "drafter.positions"
    title = "the drafter has as many positions as the context"
    severity = "warn"
    requires = ("drafter.there",)
    ids = ("drafter-positions",)
    well = "enough"


class Device(Check):
    """On the CPU, vLLM speculates from 0.20 on, and MLA's blocks of the KV cache do not go with those of a drafter."""

    id = "drafter.device"
    title = "this vLLM can speculate on this device"
    requires = ("drafter.there",)

    def spared(self, deployment: Deployment) -> str | None:
        if not deployment.kit.speculative:
            return "this deployment does not speculate"
        return "on GPUs every release speculates" if deployment.kit.engine.device == "cuda" else None

    def check(self, target: ModelFacts, deployment: Deployment) -> Answer:
        engine = deployment.kit.engine
        if Version(engine.vllm) < CPU_SPECULATES_SINCE:
            fix = f"engine.vllm: {CPU_SPECULATES_SINCE}.0 or later; kit rehearse tries an older one with changes"
            return self.bad(f"the CPU build of vLLM {engine.vllm} does not speculate", "0.20 or later", fix)
        if target.config and target.config.text.mla and engine.env.get("VLLM_MLA_DISABLE") != "1":
            fix = 'VLLM_MLA_DISABLE: "1" under engine.env in kit.yaml'
            return self.bad("MLA on the CPU beside a Llama-type drafter: No common block size", "plain attention", fix)
        return self.good(f"vLLM {engine.vllm} on the CPU")
