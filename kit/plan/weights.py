"""How many bytes of weights one rank holds: what tensor parallelism splits, and what every rank keeps whole.

The rules are vLLM's layers': column- and row-parallel projections are split; norms, the router, MLA's down
projections and EAGLE-3's fc are replicated; the vocabulary is padded to a multiple of 64 and split; key and value
heads are split until each rank has one, then replicated; experts are split inside, or whole by expert parallelism.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from kit.model.config import ModelConfig, TextConfig
from kit.model.safetensors import BITS
from kit.model.weights import Group
from kit.plan.setup import Setup

VOCABULARY_PADDING = 64
PLAIN = ("F32", "F16", "BF16", "F64")  # held in the type of the activations, whatever the file has
KEPT_TYPE = ("e_score_correction_bias", "weight_scale_inv")  # held in float32 as stored


class Sharing(Enum):
    """How one kind of tensor is spread over the ranks of a tensor-parallel group."""

    SPLIT = "split"
    WHOLE = "whole"
    VOCABULARY = "vocabulary"
    KEY_VALUE = "key and value heads"
    EXPERT = "experts"
    DROPPED = "not loaded"


_RULES: tuple[tuple[str, Sharing], ...] = (
    (r"(^|\.)(weight_shape|t2d|inv_freq)$", Sharing.DROPPED),
    (r"(^|\.)(vision_tower|vision_model|visual|mm_projector|multi_modal_projector)\.", Sharing.WHOLE),
    (r"\.experts\.", Sharing.EXPERT),
    (r"(^|\.)(embed_tokens|lm_head)\.", Sharing.VOCABULARY),
    (r"norm\d*\.", Sharing.WHOLE),
    (r"\.(q_a_proj|kv_a_proj_with_mqa)\.", Sharing.WHOLE),
    (r"\.(k_proj|v_proj)\.", Sharing.KEY_VALUE),
    (r"\.(o_proj|down_proj)\.bias$", Sharing.WHOLE),
    (r"_proj\.|\.(qkv|dense|w1|w2|w3|c_attn|c_fc|c_proj)\.", Sharing.SPLIT),
)
"""First match decides; what matches none is kept whole, which errs on the safe side."""
_COMPILED = tuple((re.compile(pattern), sharing) for pattern, sharing in _RULES)


@dataclass(frozen=True)
class Share:
    """Bytes on one rank, by what they are: split, whole on every rank, experts."""

    split: int
    whole: int
    experts: int

    @property
    def total(self) -> int:
        """Bytes of all weights on the rank."""
        return self.split + self.whole + self.experts


def sharing_of(kind: str) -> Sharing:
    """How tensors of this kind (a name with # for numbers) are spread."""
    return next((sharing for pattern, sharing in _COMPILED if pattern.search(kind)), Sharing.WHOLE)


def weights_per_rank(groups: Iterable[Group], config: ModelConfig, setup: Setup, tensor: int | None = None) -> Share:
    """Bytes of weights on the fullest rank; `tensor` overrides the setup's size (a drafter may have its own)."""
    ranks = tensor or setup.tensor
    split = whole = experts = 0.0
    for group in groups:
        sharing = sharing_of(group.kind)
        if sharing is Sharing.DROPPED:
            continue
        size = _held(group, setup.dtype_bytes)
        if sharing is Sharing.EXPERT:
            experts += _experts(size, config.text, setup, ranks)
        elif sharing is Sharing.WHOLE:
            whole += size
        elif sharing is Sharing.VOCABULARY:
            split += _padded(size, group) / ranks
        elif sharing is Sharing.KEY_VALUE:
            heads = config.text.kv_heads or ranks
            split += size * math.ceil(heads / ranks) / heads
        else:
            split += size / ranks
    pipeline = setup.pipeline  # layers are dealt out evenly; the ends are small beside them
    return Share(*(math.ceil(value / pipeline) for value in (split, whole, experts)))


def absorbed_projections(config: TextConfig, setup: Setup) -> int:
    """Bytes on one rank of kv_b_proj's second copy, which MLA keeps in the form that decoding multiplies with."""
    if not (config.mla and setup.mla and setup.card):
        return 0
    heads = math.ceil((config.num_attention_heads or 0) / setup.tensor)
    width = (config.qk_nope_head_dim or 0) + (config.v_head_dim or 0)
    layers = math.ceil((config.num_hidden_layers or 0) / setup.pipeline)
    return layers * heads * width * (config.kv_lora_rank or 0) * setup.dtype_bytes


def _held(group: Group, dtype_bytes: int) -> int:
    """Bytes of a group as held in memory: plain weights take the type of the activations, packed ones stay."""
    tensor = group.tensor
    if tensor.dtype not in PLAIN or group.kind.endswith(KEPT_TYPE):
        return group.nbytes
    return group.nbytes * 8 * dtype_bytes // BITS[tensor.dtype]


def _padded(size: int, group: Group) -> float:
    rows = group.tensor.shape[0] if group.tensor.shape else 0
    return size * math.ceil(rows / VOCABULARY_PADDING) * VOCABULARY_PADDING / rows if rows else size


def _experts(size: int, config: TextConfig, setup: Setup, ranks: int) -> float:
    if setup.expert and config.num_experts:
        return size * math.ceil(config.num_experts / ranks) / config.num_experts
    return size / ranks
