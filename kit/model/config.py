"""The facts of a config.json, of a target or a drafter, as vLLM reads it.

Only what is judged or planned with is taken; everything else passes unseen. A wrapper of several parts (Kimi-K2.5,
Llava) keeps its language model under `text_config`; a drafter in the speculators format keeps its layer under
`transformer_layer_config`. Both are looked into here, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from kit.model.findings import Finding

TEXT_PARTS = ("text_config", "language_config", "llm_config", "thinker_config")


def _absent_is_false(value: Any) -> Any:
    return False if value is None else value


Section = TypeVar("Section", bound=BaseModel)
Count = Annotated[int, Field(gt=0, lt=1 << 40)]
Flag = Annotated[bool, BeforeValidator(_absent_is_false)]


class TextConfig(BaseModel):
    """The language model's own numbers, under the names of transformers; None where the file does not say."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", protected_namespaces=())

    model_type: str | None = None
    hidden_size: Count | None = None
    num_hidden_layers: Count | None = None
    num_attention_heads: Count | None = None
    num_key_value_heads: Count | None = None
    head_dim: Count | None = None
    intermediate_size: Count | None = None
    vocab_size: Count | None = None
    max_position_embeddings: Count | None = None
    sliding_window: Count | None = None
    tie_word_embeddings: Flag = False
    attention_bias: Flag = False
    # multi-head latent attention
    q_lora_rank: Count | None = None
    kv_lora_rank: Count | None = None
    qk_nope_head_dim: Count | None = None
    qk_rope_head_dim: Count | None = None
    v_head_dim: Count | None = None
    # mixture of experts
    num_experts: Annotated[
        Count | None, Field(validation_alias=AliasChoices("n_routed_experts", "num_experts", "num_local_experts"))
    ] = None
    n_shared_experts: Annotated[int, Field(ge=0)] | None = None
    num_experts_per_tok: Count | None = None
    moe_intermediate_size: Count | None = None
    first_k_dense_replace: Annotated[int, Field(ge=0)] = 0
    moe_layer_freq: Count = 1

    @property
    def mla(self) -> bool:
        """Whether attention is multi-head latent: one compressed vector per token and layer in the KV cache."""
        return self.kv_lora_rank is not None

    @property
    def kv_heads(self) -> int | None:
        """Key and value heads; as many as query heads where the file does not say."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_size(self) -> int | None:
        """Size of one attention head, as vLLM derives it."""
        if self.head_dim or not (self.hidden_size and self.num_attention_heads):
            return self.head_dim
        return self.hidden_size // self.num_attention_heads


class DraftConfig(BaseModel):
    """What only an EAGLE-3 drafter's config says. Defaults are vLLM's."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", protected_namespaces=())

    draft_vocab_size: Count | None = None
    target_hidden_size: Count | None = None
    num_aux_hidden_states: Count | None = None
    eagle_aux_hidden_state_layer_ids: list[int] | None = None
    use_aux_hidden_state: bool | None = None
    norm_before_residual: Flag = False
    norm_before_fc: Flag = False
    norm_output: Flag = False
    fc_norm: Flag = False


@dataclass(frozen=True)
class ModelConfig:
    """config.json as far as it matters here.

    `quantization` is the method's name ("compressed-tensors", "fp8", "awq"...), None for none. `multimodal`: the
    language model is a part of something larger.
    """

    architecture: str | None
    model_type: str | None
    text: TextConfig
    draft: DraftConfig
    dtype: str | None
    quantization: str | None
    multimodal: bool


def read_config(raw: Mapping[str, Any]) -> tuple[ModelConfig, list[Finding]]:
    """The facts of a parsed config.json, and what is wrong with it; a value of a wrong kind counts as not given."""
    findings: list[Finding] = []
    part = next((raw[name] for name in TEXT_PARTS if isinstance(raw.get(name), dict)), None)
    layer = raw.get("transformer_layer_config")
    speculators = isinstance(layer, dict)
    inner: Mapping[str, Any] = layer if isinstance(layer, dict) else part if part is not None else raw
    eagle = raw.get("eagle_config")
    draft_raw: dict[str, Any] = {key: value for key, value in raw.items() if key != "use_aux_hidden_state"}
    if speculators:
        draft_raw.setdefault("norm_before_residual", True)
    if isinstance(eagle, dict):
        ids = eagle.get("eagle_aux_hidden_state_layer_ids")
        if not raw.get("eagle_aux_hidden_state_layer_ids"):
            draft_raw["eagle_aux_hidden_state_layer_ids"] = ids
        if isinstance(ids, list):
            draft_raw.setdefault("num_aux_hidden_states", len(ids))
        draft_raw |= {key: eagle[key] for key in ("use_aux_hidden_state", "norm_before_fc") if key in eagle}
    architecture = _architecture(raw, inner if speculators else None, findings)
    return (
        ModelConfig(
            architecture=architecture,
            model_type=_text(raw.get("model_type")),
            text=_validated(TextConfig, inner, findings),
            draft=_validated(DraftConfig, draft_raw, findings),
            dtype=_dtype(raw) or _dtype(inner),
            quantization=_quantization(raw, inner),
            multimodal=part is not None,
        ),
        findings,
    )


def invalid(found: str, want: str) -> Finding:
    """The finding for a value in config.json that cannot be."""
    return Finding(
        "config-invalid", "fail", f"config.json: {found}", want, "fetch config.json again from the model's origin"
    )


def _validated(kind: type[Section], raw: Mapping[str, Any], findings: list[Finding]) -> Section:
    values = dict(raw)
    for _ in range(2):  # once to find the wrong values, once without them
        try:
            return kind.model_validate(values)
        except ValidationError as error:
            for problem in error.errors(include_url=False, include_input=True):
                key = str(problem["loc"][0])
                values.pop(key, None)
                findings.append(invalid(f"{key} is {str(problem['input'])[:60]!r}", problem["msg"]))
    return kind()


def _architecture(
    raw: Mapping[str, Any], speculators_layer: Mapping[str, Any] | None, findings: list[Finding]
) -> str | None:
    names = raw.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        return names[0]
    if speculators_layer is not None:
        return {"llama": "Eagle3LlamaForCausalLM", "qwen3": "Eagle3Qwen3ForCausalLM"}.get(
            str(speculators_layer.get("model_type", "llama"))
        )
    findings.append(invalid("names no architecture", "architectures: a list with the class of the model"))
    return None


def _quantization(raw: Mapping[str, Any], inner: Mapping[str, Any]) -> str | None:
    for place in (raw, inner):
        for key in ("quantization_config", "compression_config"):
            section = place.get(key)
            if isinstance(section, dict):
                return _text(section.get("quant_method")) or "unnamed"
    return None


def _dtype(raw: Mapping[str, Any]) -> str | None:
    value = _text(raw.get("dtype")) or _text(raw.get("torch_dtype"))
    return value.removeprefix("torch.") if value else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
