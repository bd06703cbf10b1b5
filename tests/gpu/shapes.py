"""Models of real size without real weights, to hold the memory plan against what vLLM prints.

Their files name every tensor with its real shape and are sparse: all zeros, so they take no space on the disk, and
vLLM loads them as it would load the real ones. They answer nonsense; nothing but their size is looked at.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

from kit import files

Shapes = dict[str, tuple[int, ...]]
BYTES = {"BF16": 2, "I64": 8, "BOOL": 1}
COMMON = {"hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
COMMON |= {"bos_token_id": 0, "eos_token_id": 1}

LLAMA_8B = COMMON | {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
}
MLA_16B = COMMON | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 2048,
    "intermediate_size": 11264,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "q_lora_rank": None,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.446,
    "num_nextn_predict_layers": 0,
    "vocab_size": 163840,
    "max_position_embeddings": 8192,
    "rope_theta": 50000.0,
}
# A Llama of 405 billion parameters: 756 GiB in bfloat16.
LLAMA_405B = LLAMA_8B | {"hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126}
LLAMA_405B |= {"num_attention_heads": 128}
# Five heads, which no two cards can share: 0.2 billion parameters.
LLAMA_FIVE_HEADS = LLAMA_8B | {"hidden_size": 640, "intermediate_size": 1792, "num_hidden_layers": 4}
LLAMA_FIVE_HEADS |= {"num_attention_heads": 5, "num_key_value_heads": 5}


def write_all(folder: Path, reference: Path) -> None:
    """Write the models below `folder`; the tokenizer is that of the reference model in `reference`."""
    _write(folder / "llama-8b", LLAMA_8B, llama(LLAMA_8B), reference)
    _write(folder / "llama-8b-eagle3", *drafter(LLAMA_8B, 32000), reference)
    _write(folder / "mla-16b", MLA_16B, mla(MLA_16B), reference)
    _write(folder / "mla-16b-eagle3", *drafter(MLA_16B, 32000), reference)
    _write(folder / "llama-405b", LLAMA_405B, llama(LLAMA_405B), reference)
    _write(folder / "llama-five-heads", LLAMA_FIVE_HEADS, llama(LLAMA_FIVE_HEADS), reference)


def llama(config: dict[str, Any]) -> Shapes:
    """The tensors of a Llama checkpoint."""
    shapes, hidden, head = _ends(config), config["hidden_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        shapes |= _norms(name, hidden) | _mlp(f"{name}mlp.", hidden, config["intermediate_size"])
        shapes |= _attention(name, hidden, queries, keys, hidden)
    return shapes


def mla(config: dict[str, Any]) -> Shapes:
    """The tensors of a DeepSeek-V3 checkpoint without a rank for queries."""
    shapes, hidden, heads = _ends(config), config["hidden_size"], config["num_attention_heads"]
    rank, rope = config["kv_lora_rank"], config["qk_rope_head_dim"]
    nope, value = config["qk_nope_head_dim"], config["v_head_dim"]
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        shapes |= _norms(name, hidden)
        shapes |= {
            f"{name}self_attn.q_proj.weight": (heads * (nope + rope), hidden),
            f"{name}self_attn.kv_a_proj_with_mqa.weight": (rank + rope, hidden),
            f"{name}self_attn.kv_a_layernorm.weight": (rank,),
            f"{name}self_attn.kv_b_proj.weight": (heads * (nope + value), rank),
            f"{name}self_attn.o_proj.weight": (hidden, heads * value),
        }
        if layer < config["first_k_dense_replace"]:
            shapes |= _mlp(f"{name}mlp.", hidden, config["intermediate_size"])
            continue
        experts, inner = config["n_routed_experts"], config["moe_intermediate_size"]
        shapes |= {f"{name}mlp.gate.weight": (experts, hidden), f"{name}mlp.gate.e_score_correction_bias": (experts,)}
        shapes |= _mlp(f"{name}mlp.shared_experts.", hidden, inner * config["n_shared_experts"])
        for expert in range(experts):
            shapes |= _mlp(f"{name}mlp.experts.{expert}.", hidden, inner)
    return shapes


def drafter(target: dict[str, Any], vocabulary: int) -> tuple[dict[str, Any], Shapes]:
    """Config and tensors of a Llama-type EAGLE-3 drafter for a target, with `vocabulary` draft tokens of its own."""
    hidden, head, heads, keys = target["hidden_size"], 128, target["hidden_size"] // 128, 8
    inner = LLAMA_8B["intermediate_size"]
    config = LLAMA_8B | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "hidden_size": hidden,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "vocab_size": target["vocab_size"],
        "draft_vocab_size": vocabulary,
        "max_position_embeddings": target["max_position_embeddings"],
    }
    name = "midlayer."
    shapes = _mlp(f"{name}mlp.", hidden, inner) | _norms(name, hidden) | {f"{name}hidden_norm.weight": (hidden,)}
    shapes |= _attention(name, 2 * hidden, heads * head, keys * head, hidden)
    shapes |= {"fc.weight": (hidden, 3 * hidden), "norm.weight": (hidden,), "lm_head.weight": (vocabulary, hidden)}
    return config, shapes | {"d2t": (vocabulary,), "t2d": (target["vocab_size"],)}


def _ends(config: dict[str, Any]) -> Shapes:
    table = (config["vocab_size"], config["hidden_size"])
    return {
        "model.embed_tokens.weight": table,
        "lm_head.weight": table,
        "model.norm.weight": (config["hidden_size"],),
    }


def _norms(name: str, hidden: int) -> Shapes:
    return {f"{name}{norm}.weight": (hidden,) for norm in ("input_layernorm", "post_attention_layernorm")}


def _mlp(name: str, hidden: int, inner: int) -> Shapes:
    up = {f"{name}{part}.weight": (inner, hidden) for part in ("gate_proj", "up_proj")}
    return up | {f"{name}down_proj.weight": (hidden, inner)}


def _attention(name: str, inputs: int, queries: int, keys: int, outputs: int) -> Shapes:
    rows = {
        "q_proj": (queries, inputs),
        "k_proj": (keys, inputs),
        "v_proj": (keys, inputs),
        "o_proj": (outputs, queries),
    }
    return {f"{name}self_attn.{part}.weight": shape for part, shape in rows.items()}


def _write(folder: Path, config: dict[str, Any], shapes: Shapes, reference: Path) -> None:
    files.write(folder / "config.json", json.dumps(config, indent=1) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(reference / name, folder / name)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in shapes.items():
        kind = {"d2t": "I64", "t2d": "BOOL"}.get(name, "BF16")
        size = math.prod(shape) * BYTES[kind]
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as handle:
        handle.write(len(text).to_bytes(8, "little") + text)
        handle.truncate(8 + len(text) + offset)
