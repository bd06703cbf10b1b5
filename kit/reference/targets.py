"""The weights of the target in its three forms: DeepSeek-V3, Kimi-K2.5 (the same inside a wrapper), and Llama.

Each form embeds a token one-hot, lets every layer leave its marker (see `layout`), and reads the next token from
dimensions 0..127 of the last residual stream. Attention is small noise that writes where nobody reads, so it runs
as in a real model and cannot change the text.
"""

from __future__ import annotations

import math

import numpy as np

from kit.reference.layout import HIDDEN, LAYERS, LIVE_TOKENS, MARKER, NOISE, VOCABULARY, next_token
from kit.reference.tensors import Array, Floats, noise, ones, zeros

Tensors = dict[str, Array]

HEADS = 4
HEAD = 64  # every head dimension: Llama's, and MLA's nope, rope and value parts
LLAMA_KEY_VALUE_HEADS = 2
QUERY_RANK = 96
KEY_VALUE_RANK = 512  # the one size that MLA kernels are built for, as is the rope part of 64
EXPERTS = 4
EXPERTS_PER_TOKEN = 2
ROUTED_SCALING = 2.5
INTERMEDIATE = 64
LOGIT_GAIN = 10.0
NOISE_OUT = 2**-9  # amplitude of what attention writes: far below the markers

SILU_OF_ONE = 0.7310585786300049  # 1 / (1 + exp(-1)), a literal so that no C library decides its last bit


def live_one_hot(rows: int) -> Floats:
    """(rows, HIDDEN): row t is one-hot in dimension t for the live tokens, zero for the rest."""
    table = zeros(rows, HIDDEN)
    table[:LIVE_TOKENS, :LIVE_TOKENS] = np.eye(LIVE_TOKENS, dtype=np.float32)
    return table


def output_rows(answers: list[int]) -> Floats:
    """(VOCABULARY, HIDDEN) of an lm_head that answers `answers[t]` after live token t."""
    head = zeros(VOCABULARY, HIDDEN)
    head[answers, np.arange(LIVE_TOKENS)] = LOGIT_GAIN
    return head


def deepseek_v3() -> Tensors:
    """Weights of the DeepSeek-V3 form, named as that architecture's checkpoints name them."""
    tensors = _ends()
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        tensors |= _norms(name)
        attention = name + "self_attn."
        head_rows = HEADS * 2 * HEAD
        tensors[attention + "q_a_layernorm.weight"] = ones(QUERY_RANK)
        tensors[attention + "kv_a_layernorm.weight"] = ones(KEY_VALUE_RANK)
        for part, rows, columns in (
            ("q_a_proj", QUERY_RANK, HIDDEN),
            ("q_b_proj", head_rows, QUERY_RANK),
            ("kv_a_proj_with_mqa", KEY_VALUE_RANK + HEAD, HIDDEN),
            ("kv_b_proj", head_rows, KEY_VALUE_RANK),
        ):
            tensors[f"{attention}{part}.weight"] = noise(attention + part, rows, columns)
        tensors[attention + "o_proj.weight"] = _noise_out(attention)
        if layer == 0:
            tensors |= _marker_mlp(name + "mlp.", layer, 1.0)
        else:
            tensors |= _mixture_of_experts(name + "mlp.", layer)
    return tensors


def llama() -> Tensors:
    """Weights of the Llama form: dense layers and grouped-query attention."""
    tensors = _ends()
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        tensors |= _norms(name)
        attention = name + "self_attn."
        for part, heads in (("q_proj", HEADS), ("k_proj", LLAMA_KEY_VALUE_HEADS), ("v_proj", LLAMA_KEY_VALUE_HEADS)):
            tensors[f"{attention}{part}.weight"] = noise(attention + part, heads * HEAD, HIDDEN)
        tensors[attention + "o_proj.weight"] = _noise_out(attention)
        tensors |= _marker_mlp(name + "mlp.", layer, 1.0)
    return tensors


def kimi_k25() -> Tensors:
    """Weights of the Kimi-K2.5 form: the DeepSeek-V3 form under `language_model.`, and a vision tower of one layer."""
    return {f"language_model.{name}": tensor for name, tensor in deepseek_v3().items()} | _vision_tower()


def _ends() -> Tensors:
    return {
        "model.embed_tokens.weight": live_one_hot(VOCABULARY),
        "model.norm.weight": ones(HIDDEN),
        "lm_head.weight": output_rows([next_token(token) for token in range(LIVE_TOKENS)]),
    }


def _norms(name: str) -> Tensors:
    return {f"{name}{norm}.weight": ones(HIDDEN) for norm in ("input_layernorm", "post_attention_layernorm")}


def _noise_out(attention: str) -> Array:
    weight = np.zeros((HIDDEN, HEADS * HEAD), np.float16)
    weight[NOISE:] = noise(attention + "o_proj", HIDDEN - NOISE, HEADS * HEAD, amplitude=NOISE_OUT)
    return weight


def _marker_mlp(name: str, layer: int, amount: float) -> Tensors:
    """One unit that adds `amount` to this layer's marker whenever a live token is present.

    At layer l the stream holds 1 + l ones, so RMS norm makes the token's dimension sqrt(HIDDEN / (1 + l)); gate and
    up undo that to exactly 1, and down divides by silu(1).
    """
    gate, down = zeros(INTERMEDIATE, HIDDEN), zeros(HIDDEN, INTERMEDIATE)
    gate[0, :LIVE_TOKENS] = math.sqrt((1 + layer) / HIDDEN)
    down[MARKER + layer, 0] = amount / SILU_OF_ONE
    return {f"{name}gate_proj.weight": gate, f"{name}up_proj.weight": gate, f"{name}down_proj.weight": down}


def _mixture_of_experts(name: str, layer: int) -> Tensors:
    """Identical experts: whichever two are chosen, they add one half together, and the shared expert the other."""
    router = zeros(EXPERTS, HIDDEN)
    router[np.arange(LIVE_TOKENS) % EXPERTS, np.arange(LIVE_TOKENS)] = 1.0
    tensors: Tensors = {f"{name}gate.weight": router, f"{name}gate.e_score_correction_bias": zeros(EXPERTS)}
    for expert in range(EXPERTS):
        tensors |= _marker_mlp(f"{name}experts.{expert}.", layer, 0.5 / ROUTED_SCALING)
    return tensors | _marker_mlp(f"{name}shared_experts.", layer, 0.5)


VISION_HIDDEN = 64
VISION_INTERMEDIATE = 128
PATCH = 14
VISION_GRID = 8


def _vision_tower() -> Tensors:
    width, merged = VISION_HIDDEN, 4 * VISION_HIDDEN  # the projector takes 2 x 2 patches at once
    block = "vision_tower.encoder.blocks.0."
    linear = {
        f"{block}mlp.fc0": (VISION_INTERMEDIATE, width),
        f"{block}mlp.fc1": (width, VISION_INTERMEDIATE),
        f"{block}wqkv": (3 * width, width),
        f"{block}wo": (width, width),
        "mm_projector.proj.0": (merged, merged),
        "mm_projector.proj.2": (HIDDEN, merged),
        "vision_tower.patch_embed.proj": (width, 3, PATCH, PATCH),
    }
    norms = (f"{block}norm0", f"{block}norm1", "vision_tower.encoder.final_layernorm", "mm_projector.pre_norm")
    tensors: Tensors = {
        "vision_tower.patch_embed.pos_emb.weight": noise("vision.pos_emb", VISION_GRID, VISION_GRID, width)
    }
    for name, shape in linear.items():
        tensors |= {f"{name}.weight": noise(name, *shape), f"{name}.bias": zeros(shape[0])}
    for name in norms:
        tensors |= {f"{name}.weight": ones(width), f"{name}.bias": zeros(width)}
    return tensors
