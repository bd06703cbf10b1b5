"""The JSON files beside the target's weights: config, tokenizer, and what the Kimi form needs for images."""

from __future__ import annotations

from typing import Any

from kit.reference import targets
from kit.reference.layout import HIDDEN, LAYERS, LIVE_TOKENS, SPECIAL_TOKENS, VOCABULARY, special

Json = dict[str, Any]

MAX_POSITIONS = 2048
UNKNOWN = "<unk>"

_COMMON: Json = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": targets.INTERMEDIATE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": targets.HEADS,
    "hidden_act": "silu",
    "max_position_embeddings": MAX_POSITIONS,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "attention_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": special("<s>"),
    "eos_token_id": special("</s>"),
    "pad_token_id": special("</s>"),
    "torch_dtype": "float32",
}


def deepseek_v3() -> Json:
    """config.json of the DeepSeek-V3 form."""
    return _COMMON | {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "num_key_value_heads": targets.HEADS,
        "q_lora_rank": targets.QUERY_RANK,
        "kv_lora_rank": targets.KEY_VALUE_RANK,
        "qk_nope_head_dim": targets.HEAD,
        "qk_rope_head_dim": targets.HEAD,
        "v_head_dim": targets.HEAD,
        "moe_intermediate_size": targets.INTERMEDIATE,
        "n_routed_experts": targets.EXPERTS,
        "n_shared_experts": 1,
        "num_experts_per_tok": targets.EXPERTS_PER_TOKEN,
        "routed_scaling_factor": targets.ROUTED_SCALING,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
        "n_group": 1,
        "topk_group": 1,
        "moe_layer_freq": 1,
        "first_k_dense_replace": 1,
        "ep_size": 1,
        "num_nextn_predict_layers": 0,
    }


def llama() -> Json:
    """config.json of the Llama form."""
    return _COMMON | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_key_value_heads": targets.LLAMA_KEY_VALUE_HEADS,
        "head_dim": targets.HEAD,
        "mlp_bias": False,
    }


def kimi_k25() -> Json:
    """config.json of the Kimi-K2.5 form: a text and a vision part under one wrapper."""
    grid = targets.VISION_GRID
    return {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "text_config": deepseek_v3() | {"model_type": "kimi_k2"},
        "vision_config": {
            "model_type": "kimi_k25_vision",
            "hidden_size": targets.VISION_HIDDEN,
            "vt_hidden_size": targets.VISION_HIDDEN,
            "mm_hidden_size": targets.VISION_HIDDEN,
            "text_hidden_size": HIDDEN,
            "intermediate_size": targets.VISION_INTERMEDIATE,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "patch_size": targets.PATCH,
            "pos_emb_type": "divided_fixed",
            "pos_emb_height": grid,
            "pos_emb_width": grid,
            "pos_emb_time": 4,
            "init_pos_emb_height": grid,
            "init_pos_emb_width": grid,
            "init_pos_emb_time": 4,
            "merge_kernel_size": [2, 2],
            "merge_type": "sd2_tpool",
            "video_attn_type": "spatial_temporal",
            "mm_projector_type": "patchmerger",
            "projector_hidden_act": "gelu",
            "projector_ln_eps": 1e-5,
        },
        "media_placeholder_token_id": special("<|media_pad|>"),
        "image_token_id": special("<|media_pad|>"),
        "video_token_id": special("<|kimi_k25_video_placeholder|>"),
        "video_placeholder": "<|kimi_k25_video_placeholder|>",
        "use_unified_vision_chunk": True,
        "ignore_index": -100,
        "bos_token_id": special("<s>"),
        "eos_token_id": special("</s>"),
        "pad_token_id": special("</s>"),
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }


def preprocessor(auto_map: Json | None = None) -> Json:
    """preprocessor_config.json of the Kimi form; `auto_map` names the class of an own image processor."""
    return {
        "media_proc_cfg": {
            "patch_size": targets.PATCH,
            "in_patch_limit": 256,
            "in_patch_limit_each_frame": 64,
            "in_patch_limit_video": 256,
            "patch_limit_on_one_side": 16,
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
            "merge_kernel_size": 2,
            "temporal_merge_kernel_size": 4,
            "fixed_output_tokens": None,
            "sample_fps": 2.0,
            "max_num_frames_each_video": None,
            "timestamp_mode": "hh:mm:ss.fff",
        }
    } | ({"auto_map": auto_map} if auto_map else {})


def tokenizer() -> Json:
    """tokenizer.json: one word, one token; the words are t0..t127 and text is split at white space."""
    words = {f"t{token}": token for token in range(LIVE_TOKENS)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": special(token),
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token in SPECIAL_TOKENS
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": words | {token: special(token) for token in SPECIAL_TOKENS},
            "unk_token": UNKNOWN,
        },
    }


def tokenizer_config() -> Json:
    """tokenizer_config.json: a chat is its messages' words in their order, with nothing added."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": UNKNOWN,
        "clean_up_tokenization_spaces": False,
        "model_max_length": MAX_POSITIONS,
        "chat_template": "{% for message in messages %}{{ message['content'] }} {% endfor %}",
    }
