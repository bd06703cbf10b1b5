"""The KV cache: bytes that one token takes on one rank, and how many tokens fit.

Multi-head latent attention keeps one vector per token and layer (kv_lora_rank + rope), the same on every rank;
grouped-query attention keeps keys and values of the rank's heads; an EAGLE-3 drafter keeps those of its own layers.
"""

from __future__ import annotations

import math

from kit.model.config import TextConfig
from kit.plan.setup import Setup

CPU_BLOCK = 128
CUDA_BLOCK = 16
MLA_BLOCK = 64


def bytes_per_token(config: TextConfig, setup: Setup, *, tensor: int | None = None, drafter: bool = False) -> int:
    """Bytes of one token in the KV cache of one rank, over all layers that the rank has. 0 when config lacks sizes."""
    ranks = tensor or setup.tensor
    number = setup.dtype_bytes if drafter else setup.kv_dtype_bytes or setup.dtype_bytes
    layers = config.num_hidden_layers or 0
    if not drafter:
        layers = math.ceil(layers / setup.pipeline)
    if config.mla and setup.mla:
        return layers * ((config.kv_lora_rank or 0) + (config.qk_rope_head_dim or 0)) * number
    if config.mla:  # run as plain attention: values are padded to the size of the keys
        heads = math.ceil((config.num_attention_heads or 0) / ranks)
        size = (config.qk_nope_head_dim or 0) + (config.qk_rope_head_dim or 0)
    else:
        heads = math.ceil((config.kv_heads or 0) / ranks)
        size = config.head_size or 0
    return layers * 2 * heads * size * number


def block_tokens(config: TextConfig, setup: Setup) -> int:
    """Tokens in one block of the cache: memory comes in whole blocks."""
    if setup.card is None:
        return CPU_BLOCK
    return MLA_BLOCK if config.mla and setup.mla else CUDA_BLOCK


def tokens_that_fit(memory: int, per_token: int, block: int) -> int:
    """Tokens in `memory` bytes, in whole blocks; 0 when there is none."""
    if per_token <= 0 or memory <= 0:
        return 0
    return memory // (per_token * block) * block
