"""A minute EAGLE-3 engine in numpy: runs the written files as vLLM would, without vLLM.

`Target` runs the Llama form; `draft` runs a drafter on its auxiliary states. Position by position, no cache: the
texts here are short.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


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


def attention(x, weights, prefix, size, rows=slice(None)):
    """Causal attention of (positions, width), for these rows; key and value heads are repeated to the query's."""
    query, key, value = (
        (x @ weights[f"{prefix}{part}_proj.weight"].astype(np.float32).T).reshape(len(x), -1, size) for part in "qkv"
    )
    query, key = rotate(query)[rows], rotate(key)
    repeat = query.shape[1] // key.shape[1]
    key, value = key.repeat(repeat, 1), value.repeat(repeat, 1)
    scores = query.transpose(1, 0, 2) @ key.transpose(1, 2, 0) / np.sqrt(size)  # (heads, rows, positions)
    scores = np.where(np.tri(len(x), dtype=bool)[rows], scores, -np.inf)
    share = np.exp(scores - scores.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    mixed = (share @ value.transpose(1, 0, 2)).transpose(1, 0, 2).reshape(len(query), -1)
    return mixed @ weights[f"{prefix}o_proj.weight"].astype(np.float32).T


def mlp(x, weights, prefix):
    gate, up, down = (weights[f"{prefix}{part}_proj.weight"] for part in ("gate", "up", "down"))
    return (silu(x @ gate.T) * (x @ up.T)) @ down.T


class Target:
    """The Llama form, from its files."""

    def __init__(self, folder: Path):
        self.weights = load_file(folder / "model.safetensors")
        self.layers = json.loads((folder / "config.json").read_text())["num_hidden_layers"]

    def run(self, tokens):
        """(logits, residual stream at the input of each layer) for all positions."""
        w = self.weights
        x = w["model.embed_tokens.weight"][tokens]
        inputs = []
        for layer in range(self.layers):
            inputs.append(x)
            name = f"model.layers.{layer}."
            x = x + attention(rms(x), w, f"{name}self_attn.", 64)
            x = x + mlp(rms(x), w, f"{name}mlp.")
        return rms(x) @ w["lm_head.weight"].T, inputs


@functools.lru_cache
def load(folder: Path):
    """(config, weights) of a drafter."""
    return json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")


LAST = slice(-1, None)


def draft(folder: Path, tokens, states, count, layers=(2, 4, 5)):
    """The draft tokens after `tokens`, whose last is the newest; `states`: the target's inputs before that one."""
    config, w = load(folder)
    layers = config.get("eagle_aux_hidden_state_layer_ids", layers)
    hidden = np.concatenate([states[layer] for layer in layers], -1) @ w["fc.weight"].T
    tokens, guesses = list(tokens), []
    for _ in range(count):
        # Position i pairs token i + 1 with the state of token i. One layer: only the last position goes on.
        normed = rms(hidden)
        x = np.concatenate([rms(w["embed_tokens.weight"][tokens[1:]]), normed], -1)
        residual = normed[LAST] + attention(x, w, "midlayer.self_attn.", config["head_dim"], LAST)
        last = residual + mlp(rms(residual), w, "midlayer.mlp.")
        guess = int(np.argmax(rms(last[0]) @ w["lm_head.weight"].T))
        if "d2t" in w:
            guess += int(w["d2t"][guess])
        guesses.append(guess)
        tokens.append(guess)
        hidden = np.concatenate([hidden, last])
    return guesses
