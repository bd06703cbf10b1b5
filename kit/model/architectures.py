"""Which modules a checkpoint of a known architecture must hold, and the shape of their weights.

A new architecture goes in as one function and one line of ARCHITECTURES. For others only what every decoder has is
judged (`target`). Shapes are those of the unquantized weight; quantized parts have their own and are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kit.model.config import TextConfig

Shape = tuple[int | None, ...]
Module = tuple[str, Shape]  # name without ".weight", shape; None where the config does not say


def llama(config: TextConfig) -> Iterator[Module]:
    """Dense decoder with grouped-query attention: Llama, Mistral, Qwen2."""
    yield from _ends(config)
    hidden, inner = config.hidden_size, config.intermediate_size
    query, key = _times(config.num_attention_heads, config.head_size), _times(config.kv_heads, config.head_size)
    for layer in range(config.num_hidden_layers or 0):
        name = f"model.layers.{layer}."
        yield from _norms(name, hidden)
        yield f"{name}self_attn.q_proj", (query, hidden)
        yield f"{name}self_attn.k_proj", (key, hidden)
        yield f"{name}self_attn.v_proj", (key, hidden)
        yield f"{name}self_attn.o_proj", (hidden, query)
        yield from _mlp(f"{name}mlp.", hidden, inner)


def deepseek(config: TextConfig) -> Iterator[Module]:
    """Multi-head latent attention and a mixture of experts: DeepSeek-V2 and V3, Kimi-K2."""
    yield from _ends(config)
    hidden, heads = config.hidden_size, config.num_attention_heads
    nope, rope, value = config.qk_nope_head_dim, config.qk_rope_head_dim, config.v_head_dim
    latent, ranks = config.kv_lora_rank, config.q_lora_rank
    for layer in range(config.num_hidden_layers or 0):
        name = f"model.layers.{layer}."
        yield from _norms(name, hidden)
        attention = f"{name}self_attn."
        query = _times(heads, _plus(nope, rope))
        if ranks:
            yield f"{attention}q_a_proj", (ranks, hidden)
            yield f"{attention}q_a_layernorm", (ranks,)
            yield f"{attention}q_b_proj", (query, ranks)
        else:
            yield f"{attention}q_proj", (query, hidden)
        yield f"{attention}kv_a_proj_with_mqa", (_plus(latent, rope), hidden)
        yield f"{attention}kv_a_layernorm", (latent,)
        yield f"{attention}kv_b_proj", (_times(heads, _plus(nope, value)), latent)
        yield f"{attention}o_proj", (hidden, _times(heads, value))
        if not config.num_experts or layer < config.first_k_dense_replace or layer % config.moe_layer_freq:
            yield from _mlp(f"{name}mlp.", hidden, config.intermediate_size)
            continue
        yield f"{name}mlp.gate", (config.num_experts, hidden)
        for expert in range(config.num_experts):
            yield from _mlp(f"{name}mlp.experts.{expert}.", hidden, config.moe_intermediate_size)
        if config.n_shared_experts:
            inner = _times(config.moe_intermediate_size, config.n_shared_experts)
            yield from _mlp(f"{name}mlp.shared_experts.", hidden, inner)


ARCHITECTURES: dict[str, tuple[str, Callable[[TextConfig], Iterator[Module]]]] = {
    "LlamaForCausalLM": ("", llama),
    "MistralForCausalLM": ("", llama),
    "Qwen2ForCausalLM": ("", llama),
    "DeepseekV2ForCausalLM": ("", deepseek),
    "DeepseekV3ForCausalLM": ("", deepseek),
    "KimiK25ForConditionalGeneration": ("language_model.", deepseek),
}
"""Class name in config.json -> prefix of the language model's tensors, its modules."""

RENAMED: dict[str, tuple[tuple[str, str], ...]] = {
    "KimiK25ForConditionalGeneration": (("language_model.layers.", "language_model.model.layers."),),
}
"""Beginnings of names that vLLM takes for others: NVIDIA's first NVFP4 checkpoint of Kimi-K2.5 left out `model.`."""


def usual_name(architecture: str, name: str) -> str:
    """A tensor's name as the architecture's own checkpoints have it."""
    for found, usual in RENAMED.get(architecture, ()):
        if name.startswith(found):
            return usual + name.removeprefix(found)
    return name


def _ends(config: TextConfig) -> Iterator[Module]:
    yield "model.embed_tokens", (config.vocab_size, config.hidden_size)
    yield "model.norm", (config.hidden_size,)
    if not config.tie_word_embeddings:
        yield "lm_head", (config.vocab_size, config.hidden_size)


def _norms(name: str, hidden: int | None) -> Iterator[Module]:
    yield f"{name}input_layernorm", (hidden,)
    yield f"{name}post_attention_layernorm", (hidden,)


def _mlp(name: str, hidden: int | None, inner: int | None) -> Iterator[Module]:
    yield f"{name}gate_proj", (inner, hidden)
    yield f"{name}up_proj", (inner, hidden)
    yield f"{name}down_proj", (hidden, inner)


def _times(one: int | None, other: int | None) -> int | None:
    return one * other if one and other else None


def _plus(one: int | None, other: int | None) -> int | None:
    return one + other if one and other else None
