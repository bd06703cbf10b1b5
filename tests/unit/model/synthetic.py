"""Model folders that describe large models: true headers, and data that is only a hole in a sparse file."""

from __future__ import annotations

import json
import math
from pathlib import Path

from kit.model.safetensors import BITS

KIMI = {
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 384,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 163840,
    "max_position_embeddings": 262144,
    "model_type": "kimi_k2",
}
SMALL = {"num_hidden_layers": 4, "n_routed_experts": 3, "hidden_size": 128, "moe_intermediate_size": 64}


def kimi_config(**changes) -> dict:
    return {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "dtype": "bfloat16",
        "text_config": {**KIMI, **changes},
        "quantization_config": {"quant_method": "compressed-tensors"},
    }


def kimi_tensors(config: dict) -> dict[str, tuple[str, tuple[int, ...]]]:
    """name -> (type, shape) of a Kimi-K2.5 whose routed experts are in 4 bits, 32 weights to a scale."""
    c = config["text_config"]
    hidden, heads, latent = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"]
    query, nope, rope, value = c["q_lora_rank"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    found: dict[str, tuple[str, tuple[int, ...]]] = {}

    def plain(name, *shape):
        found[f"language_model.{name}.weight"] = ("BF16", shape)

    def packed(name, rows, columns):
        found[f"language_model.{name}.weight_packed"] = ("I32", (rows, columns // 8))
        found[f"language_model.{name}.weight_scale"] = ("BF16", (rows, columns // 32))
        found[f"language_model.{name}.weight_shape"] = ("I32", (2,))

    def mlp(add, name, inner):
        add(f"{name}.gate_proj", inner, hidden)
        add(f"{name}.up_proj", inner, hidden)
        add(f"{name}.down_proj", hidden, inner)

    plain("model.embed_tokens", c["vocab_size"], hidden)
    plain("lm_head", c["vocab_size"], hidden)
    plain("model.norm", hidden)
    for layer in range(c["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        plain(f"{name}.input_layernorm", hidden)
        plain(f"{name}.post_attention_layernorm", hidden)
        plain(f"{name}.self_attn.q_a_proj", query, hidden)
        plain(f"{name}.self_attn.q_a_layernorm", query)
        plain(f"{name}.self_attn.q_b_proj", heads * (nope + rope), query)
        plain(f"{name}.self_attn.kv_a_proj_with_mqa", latent + rope, hidden)
        plain(f"{name}.self_attn.kv_a_layernorm", latent)
        plain(f"{name}.self_attn.kv_b_proj", heads * (nope + value), latent)
        plain(f"{name}.self_attn.o_proj", hidden, heads * value)
        if layer < c["first_k_dense_replace"]:
            mlp(plain, f"{name}.mlp", c["intermediate_size"])
            continue
        plain(f"{name}.mlp.gate", c["n_routed_experts"], hidden)
        found[f"language_model.{name}.mlp.gate.e_score_correction_bias"] = ("F32", (c["n_routed_experts"],))
        mlp(plain, f"{name}.mlp.shared_experts", c["moe_intermediate_size"])
        for expert in range(c["n_routed_experts"]):
            mlp(packed, f"{name}.mlp.experts.{expert}", c["moe_intermediate_size"])
    return found


def header(tensors: dict[str, tuple[str, tuple[int, ...]]]) -> tuple[bytes, int]:
    """(header with its length, bytes of data) of these tensors."""
    entries, offset = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = math.prod(shape) * BITS[dtype] // 8
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text, offset


def write_shard(path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> int:
    """Write a shard whose data is a hole; the bytes of its data."""
    head, size = header(tensors)
    with path.open("wb") as handle:
        handle.write(head)
        handle.truncate(len(head) + size)
    return size


def write_model(folder: Path, config: dict, tensors: dict, shards: int) -> Path:
    """config.json, `shards` files of equal numbers of tensors, and their index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = list(tensors)
    weight_map, total = {}, 0
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = names[number * len(names) // shards : (number + 1) * len(names) // shards]
        total += write_shard(folder / file, {name: tensors[name] for name in part})
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def small_kimi(folder: Path, shards: int = 4, **changes) -> Path:
    """A Kimi-K2.5 of a few layers and experts."""
    config = kimi_config(**{**SMALL, **changes})
    return write_model(folder, config, kimi_tensors(config), shards)
