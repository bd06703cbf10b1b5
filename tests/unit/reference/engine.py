"""A minute EAGLE-3 engine in numpy: runs the written files as vLLM would, without vLLM.

`Engine.target` runs the Llama form; `Engine.draft` runs a drafter on its auxiliary states. `rounding` is applied
wherever a real engine stores a tensor, so the same weights can be tried in float32 and in bfloat16.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

LAST = slice(-1, None)


def float32(x):
    return np.asarray(x, np.float32)


def bfloat16(x):
    """x rounded to the 8 significant bits of bfloat16, to nearest, ties to even; still stored as float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def rms(x, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def silu(x):
    return x / (1 + np.exp(-x))


def rotate(x, theta=10000.0):
    """Rotary embedding of (positions, heads, size)."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


@functools.lru_cache
def load(folder: Path):
    """(config, float32 weights) of a model."""
    weights = load_file(folder / "model.safetensors")
    return json.loads((folder / "config.json").read_text()), weights


class Engine:
    def __init__(self, rounding=float32):
        self.rounding = rounding

    def linear(self, x, weight):
        return self.rounding(x @ self.rounding(weight).T)

    def norm(self, x):
        return self.rounding(rms(x))

    def attention(self, x, weights, prefix, size, rows=slice(None)):
        """Causal attention of (positions, width), for these rows; key and value heads are repeated to the query's."""
        query, key, value = (
            self.linear(x, weights[f"{prefix}{part}_proj.weight"]).reshape(len(x), -1, size) for part in "qkv"
        )
        query, key = self.rounding(rotate(query)[rows]), self.rounding(rotate(key))
        repeat = query.shape[1] // key.shape[1]
        key, value = key.repeat(repeat, 1), value.repeat(repeat, 1)
        scores = query.transpose(1, 0, 2) @ key.transpose(1, 2, 0) / np.sqrt(size)  # (heads, rows, positions)
        scores = np.where(np.tri(len(x), dtype=bool)[rows], scores, -np.inf)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share = self.rounding(share / share.sum(-1, keepdims=True))
        mixed = self.rounding((share @ value.transpose(1, 0, 2)).transpose(1, 0, 2).reshape(len(query), -1))
        return self.linear(mixed, weights[f"{prefix}o_proj.weight"])

    def mlp(self, x, weights, prefix):
        gate, up, down = (weights[f"{prefix}{part}_proj.weight"] for part in ("gate", "up", "down"))
        return self.linear(self.rounding(silu(self.linear(x, gate)) * self.linear(x, up)), down)

    def target(self, folder: Path, tokens):
        """(logits, residual stream at the input of each layer) for all positions."""
        config, w = load(folder)
        x = w["model.embed_tokens.weight"][tokens]
        inputs = []
        for layer in range(config["num_hidden_layers"]):
            inputs.append(x)
            name = f"model.layers.{layer}."
            x = self.rounding(x + self.attention(self.norm(x), w, f"{name}self_attn.", config["head_dim"]))
            x = self.rounding(x + self.mlp(self.norm(x), w, f"{name}mlp."))
        return self.linear(self.norm(x), w["lm_head.weight"]), inputs

    def draft(self, folder: Path, tokens, states, count, layers=(2, 4, 5)):
        """The draft tokens after `tokens`, whose last is the newest; `states`: the target's inputs before that one."""
        config, w = load(folder)
        layers = config.get("eagle_aux_hidden_state_layer_ids", layers)
        hidden = self.linear(np.concatenate([states[layer] for layer in layers], -1), w["fc.weight"])
        tokens, guesses = list(tokens), []
        for _ in range(count):
            # Position i pairs token i + 1 with the state of token i. One layer: only the last position goes on.
            normed = self.norm(hidden)
            x = np.concatenate([self.norm(w["embed_tokens.weight"][tokens[1:]]), normed], -1)
            mixed = self.attention(x, w, "midlayer.self_attn.", config["head_dim"], LAST)
            residual = self.rounding(normed[LAST] + mixed)
            last = self.rounding(residual + self.mlp(self.norm(residual), w, "midlayer.mlp."))
            guess = int(np.argmax(self.linear(self.norm(last[0]), w["lm_head.weight"])))
            if "d2t" in w:
                guess += int(w["d2t"][guess])
            guesses.append(guess)
            tokens.append(guess)
            hidden = np.concatenate([hidden, last])
        return guesses
