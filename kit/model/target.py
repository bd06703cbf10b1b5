"""A target judged from its folder: config, files, and whether the files hold what the config promises. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kit.model.architectures import ARCHITECTURES, RENAMED, usual_name
from kit.model.config import ModelConfig, read_config
from kit.model.findings import Finding, some
from kit.model.folder import Fault, ModelFolder
from kit.model.safetensors import Tensor
from kit.model.weights import FETCH, Weights, has_losses, judge_weights

QUANTIZED_PARTS = frozenset({
    "weight_packed", "weight_scale", "weight_scale_inv", "weight_scale_2", "qweight", "qzeros", "scales",
})  # fmt: skip
"""Tensor parts that only a quantized checkpoint has (compressed-tensors, fp8, ModelOpt, GPTQ, AWQ)."""


PACKED = ("U8", "I32", "F4")  # types that hold several weights in one element: their shape is not the weight's


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a model without loading it. `config` is None when there is no readable one."""

    name: str
    config: ModelConfig | None
    weights: Weights
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> bool:
        """Whether something is wrong that the engine would die of, or be wrong by."""
        return any(finding.severity == "fail" for finding in self.findings)


def judge_config(folder: ModelFolder) -> tuple[ModelConfig | None, list[Finding]]:
    """config.json of a folder, and what is wrong with it."""
    if folder.fault:
        return None, []  # the weights' judgement names it
    if not isinstance(folder.config, Mapping):
        text = folder.config.text if isinstance(folder.config, Fault) else "there is no config.json"
        return None, [Finding("config-missing", "fail", text, "config.json of the model", FETCH)]
    return read_config(folder.config)


def judge_target(folder: ModelFolder) -> ModelFacts:
    """Everything known of a target, and everything wrong with it."""
    config, findings = judge_config(folder)
    weights = judge_weights(folder)
    findings += weights.findings
    if config:
        if not has_losses(weights.findings):
            findings += _against_config(config, weights)
        findings += _quantization(config, weights)
    return ModelFacts(folder.path.name, config, weights, tuple(findings))


def _against_config(config: ModelConfig, weights: Weights) -> list[Finding]:
    if config.architecture in ARCHITECTURES:
        return _modules(config, weights.tensors)
    return _layers(config, weights.tensors)


def _modules(config: ModelConfig, tensors: Mapping[str, Tensor]) -> list[Finding]:
    architecture = str(config.architecture)
    prefix, modules = ARCHITECTURES[architecture]
    if architecture in RENAMED:
        tensors = {usual_name(architecture, name): tensor for name, tensor in tensors.items()}
    there = {name.rpartition(".")[0] for name in tensors}
    missing: list[str] = []
    wrong: list[str] = []
    for module, shape in modules(config.text):
        name = prefix + module
        if name not in there:
            missing.append(name)
            continue
        tensor = tensors.get(f"{name}.weight")
        if tensor and tensor.dtype not in PACKED and not _fits(tensor.shape, shape):
            wrong.append(f"{name} is {list(tensor.shape)}, not {list(shape)}")
    findings = []
    if missing:
        findings.append(
            Finding(
                "tensor-missing",
                "fail",
                f"{len(missing)} modules of this architecture have no weights: {some(missing)}",
                f"what {config.architecture} with {config.text.num_hidden_layers} layers needs",
                FETCH,
            )
        )
    if wrong:
        findings.append(
            Finding(
                "tensor-shape",
                "fail",
                f"{len(wrong)} weights have another shape than config.json says: {some(wrong)}",
                "config.json and weights of one model",
                FETCH,
            )
        )
    return findings


def _fits(found: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(found) == len(wanted) and all(
        want is None or have == want for have, want in zip(found, wanted, strict=True)
    )


def _layers(config: ModelConfig, tensors: Mapping[str, Tensor]) -> list[Finding]:
    """For an architecture that is not known here: every layer must at least have something."""
    there = set()
    for name in tensors:
        before, found, rest = name.partition("layers.")
        number = rest.partition(".")[0]
        if found and "vision" not in before and "visual" not in before and number.isdecimal():
            there.add(int(number))
    missing = sorted(set(range(config.text.num_hidden_layers or 0)) - there)
    if not missing or not tensors:
        return []
    return [
        Finding(
            "tensor-missing",
            "fail",
            f"layers without any weights: {some([str(layer) for layer in missing], 8)}",
            f"weights for each of the {config.text.num_hidden_layers} layers",
            FETCH,
        )
    ]


def _quantization(config: ModelConfig, weights: Weights) -> list[Finding]:
    parts = {group.kind.rpartition(".")[2] for group in weights.groups}
    packed = bool(parts & QUANTIZED_PARTS) or any(group.tensor.dtype.startswith("F8") for group in weights.groups)
    if packed and not config.quantization:
        found, want = "the weights are quantized, config.json does not say how", "quantization_config in config.json"
    elif config.quantization and weights.tensors and not packed:
        found, want = f"config.json says {config.quantization}, no tensor is quantized", "the quantized weights"
    else:
        return []
    return [Finding("quantization", "fail", found, want, FETCH)]
