"""What a rank needs beside weights and KV cache. Allowances: each states where its size comes from.

vLLM measures most of this itself, by a forward pass with the largest batch, but only after it has loaded the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from packaging.version import Version

from kit.model.config import TextConfig
from kit.plan.setup import GIB, Setup

GRAPHS_COUNTED_SINCE = Version("0.20")
CONTEXT = GIB // 2
WORKSPACES = GIB * 3 // 20
NCCL = GIB // 2
GRAPHS_PER_LAYER = 8 << 20
GRAPHS_BASE = GIB // 4
LOGITS_BYTES = 22  # one logit through the sampler: 2 (bfloat16), 4 (float32), sorted 4 and 8, probability 4


@dataclass(frozen=True)
class Allowance:
    """Bytes on one rank for one purpose; `inside` tells whether they come out of gpu_memory_utilization's share."""

    name: str
    nbytes: int
    inside: bool
    source: str


def allowances(config: TextConfig, setup: Setup, drafts: bool) -> list[Allowance]:
    """All allowances of one rank on a GPU; none on the CPU, where the KV cache has a size of its own."""
    if setup.card is None:
        return []
    found = [
        Allowance(
            "activations",
            max(_forward(config, setup), _sampler(config, setup, drafts)),
            True,
            f"{setup.batched_tokens} tokens in one step, or the logits of {setup.sequences} sequences, the larger",
        ),
        Allowance("workspaces", WORKSPACES, True, "cuBLAS and allocator; 0.17 GiB seen with a tiny model on two H200s"),
        Allowance("CUDA context", CONTEXT, False, "driver, kernels and libraries of one process"),
    ]
    if not setup.eager:
        counted = setup.vllm is None or Version(setup.vllm) >= GRAPHS_COUNTED_SINCE
        layers = math.ceil((config.num_hidden_layers or 0) / setup.pipeline)
        source = "captured batch sizes, growing with layers; none with enforce_eager"
        found.append(Allowance("CUDA graphs", GRAPHS_BASE + layers * GRAPHS_PER_LAYER, counted, source))
    if setup.tensor * setup.pipeline > 1:
        source = "buffers of its few channels over PCIe; over NVLink up to 1.8 GiB were seen"
        found.append(Allowance("NCCL buffers", NCCL, False, source))
    return found


def _forward(config: TextConfig, setup: Setup) -> int:
    """The widest moment of a forward pass: hidden states that live on, and the larger of attention and MLP."""
    hidden, ranks, number = config.hidden_size or 0, setup.tensor, setup.dtype_bytes
    heads = math.ceil((config.num_attention_heads or 0) / ranks)
    if config.mla:
        size = (config.qk_nope_head_dim or 0) + (config.qk_rope_head_dim or 0)
        attention = heads * (2 * size + 2 * (config.v_head_dim or 0)) + (config.q_lora_rank or 0)
    else:
        size = config.head_size or 0
        attention = (2 * heads + 2 * math.ceil((config.kv_heads or 0) / ranks)) * size
    mlp = 3 * math.ceil((config.intermediate_size or 0) / ranks)
    if config.num_experts and config.moe_intermediate_size:
        inner = config.moe_intermediate_size if setup.expert else math.ceil(config.moe_intermediate_size / ranks)
        mlp = max(mlp, (config.num_experts_per_tok or 1) * (max(2 * inner, hidden) + inner))
    return setup.batched_tokens * (6 * hidden + max(attention, mlp)) * number


def _sampler(config: TextConfig, setup: Setup, drafts: bool) -> int:
    hidden = setup.batched_tokens * (config.hidden_size or 0) * setup.dtype_bytes
    return hidden + setup.sequences * (config.vocab_size or 0) * LOGITS_BYTES * (2 if drafts else 1)
