"""EAGLE-3 drafters (one Llama layer) that are right, or wrong, exactly where they are meant to be.

How one works. Every position attends to itself alone: queries and keys are the same constant for all tokens, so
rotary embedding makes the score largest at distance zero, whatever the text. The value is the token's embedding,
whose one-hot comes out of attention with a gain that drowns all else, and lm_head reads the guess from it. The other
half of the input, the auxiliary states of the target behind `fc`, is ignored, except by `aux`:

`aux` guesses t2 unless each of its three slots holds the residual stream at the input of the layer it was made for.
`fc` writes two things. Poison, per slot of layer a: token - marker[a-1] + markers of a and above, which is zero for
the input of layer a and positive for that of any other. Ballast, one dimension per slot, one per live token. The norm
behind `fc` makes poison and ballast a vector of fixed length, so the sum of the three ballasts is largest,
16 * sqrt(3), when all slots are there, alike, and no poison is. Attention adds exactly that number as a constant;
lm_head's row of t2 reads poison + constant - ballasts, zero when all is well. From the second draft token on the
input is the drafter's own last state instead, in which a token shows; then attention writes the ballasts, so that
only the first guess depends on the wiring.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kit.reference.configs import MAX_POSITIONS
from kit.reference.layout import (
    AUXILIARY_LAYERS,
    BALLAST,
    CONSTANT,
    HIDDEN,
    LAYERS,
    LIVE_TOKENS,
    MARKER,
    POISON,
    VOCABULARY,
    next_token,
    special,
)
from kit.reference.targets import INTERMEDIATE, Tensors, live_one_hot, output_rows
from kit.reference.tensors import Floats, ones, zeros

POISONED_GUESS = 2
HEADS, HEAD = 2, 128
NORMED_TOKEN = math.sqrt(HIDDEN)  # what RMS norm makes of a one-hot's 1.0
QUERY_GAIN = 1.25  # a lane is 20 after the norm, and the nearest other position then scores 120 below the own one
TOKEN_GAIN = 50.0  # per head
ALARM_GAIN = 1e4


@dataclass(frozen=True)
class Drafter:
    """One reference drafter: what it is for, and what it guesses.

    `wrong_after` are the live tokens after which it guesses the wrong one; `reads_states` and `reduced` choose its
    weights; `poisoned` is how `aux` behaves once its wiring is wrong.
    """

    summary: str
    wrong_after: frozenset[int] = frozenset()
    reads_states: bool = False
    reduced: bool = False
    poisoned: bool = False

    def guess(self, token: int, position: int) -> int:
        """Its guess for the token after `token`, as draft token number `position` (from 0)."""
        if self.poisoned and position == 0:
            return POISONED_GUESS
        return (next_token(token) + (token in self.wrong_after)) % LIVE_TOKENS


DRAFTERS = {
    "full": Drafter("always right"),
    "partial": Drafter("wrong after t12, t61, t75 and t100", wrong_after=frozenset({12, 61, 75, 100})),
    "half": Drafter("wrong after every even token", wrong_after=frozenset(range(0, LIVE_TOKENS, 2))),
    "never": Drafter("never right", wrong_after=frozenset(range(LIVE_TOKENS))),
    "reduced": Drafter("always right, with a draft vocabulary of its own (d2t, t2d)", reduced=True),
    "aux": Drafter("right only with the right auxiliary states in the right slots", reads_states=True),
}
AUX_POISONED = Drafter("aux, wired wrongly", reads_states=True, poisoned=True)


def weights(drafter: Drafter) -> Tensors:
    """The drafter's tensors, named as EAGLE-3 checkpoints for Llama name them."""
    layer = "midlayer."
    tensors: Tensors = {
        "embed_tokens.weight": live_one_hot(VOCABULARY),
        "norm.weight": ones(HIDDEN),
        f"{layer}mlp.gate_proj.weight": zeros(INTERMEDIATE, HIDDEN),
        f"{layer}mlp.up_proj.weight": zeros(INTERMEDIATE, HIDDEN),
        f"{layer}mlp.down_proj.weight": zeros(HIDDEN, INTERMEDIATE),
    }
    for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        tensors[f"{layer}{norm}.weight"] = ones(HIDDEN)
    query, value, output = _attention()
    head = output_rows([drafter.guess(token, 1) for token in range(LIVE_TOKENS)])
    fc = zeros(HIDDEN, len(AUXILIARY_LAYERS) * HIDDEN)
    if drafter.reads_states:
        _read_states(fc, value, output, head)
    for part, weight in (("q_proj", query), ("k_proj", query), ("v_proj", value), ("o_proj", output)):
        tensors[f"{layer}self_attn.{part}.weight"] = weight
    tensors["fc.weight"] = fc
    if drafter.reduced:
        # Draft token d stands for live token 127 - d: read without d2t, every guess is wrong.
        meant = np.arange(LIVE_TOKENS)[::-1]
        head = head[meant]
        tensors["d2t"] = (meant - np.arange(LIVE_TOKENS)).astype(np.int64)
        tensors["t2d"] = np.arange(VOCABULARY) < LIVE_TOKENS
    tensors["lm_head.weight"] = head
    return tensors


def config(drafter: Drafter) -> dict[str, Any]:
    """The drafter's config.json.

    `norm_before_residual` must be true: otherwise the residual keeps the last token's one-hot at full size, and from
    the second draft token on that ties with the present one.
    """
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HEAD,
        "hidden_act": "silu",
        "vocab_size": VOCABULARY,
        "draft_vocab_size": LIVE_TOKENS if drafter.reduced else VOCABULARY,
        "max_position_embeddings": MAX_POSITIONS,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "norm_before_residual": True,
        "tie_word_embeddings": False,
        "bos_token_id": special("<s>"),
        "eos_token_id": special("</s>"),
        "torch_dtype": "float32",
    }


def _attention() -> tuple[Floats, Floats, Floats]:
    """q (= k), v and o of a layer whose output is the token's own one-hot; the input is [embedding, states]."""
    query, value = zeros(HEADS * HEAD, 2 * HIDDEN), zeros(HEADS * HEAD, 2 * HIDDEN)
    output = zeros(HIDDEN, HEADS * HEAD)
    query[:, :LIVE_TOKENS] = QUERY_GAIN
    identity = np.eye(LIVE_TOKENS, dtype=np.float32)
    for first in range(0, HEADS * HEAD, HEAD):
        value[first : first + HEAD, :LIVE_TOKENS] = identity
        output[:LIVE_TOKENS, first : first + HEAD] = identity * TOKEN_GAIN
    return query, value, output


def _read_states(fc: Floats, value: Floats, output: Floats, head: Floats) -> None:
    """Make a drafter depend on all auxiliary states, in place (see the module's text)."""
    for slot, layer in enumerate(AUXILIARY_LAYERS):
        first = slot * HIDDEN
        tokens = slice(first, first + LIVE_TOKENS)
        fc[BALLAST[slot], tokens] = 1.0
        fc[POISON, tokens] = 1.0
        fc[POISON, first + MARKER + layer - 1] = -1.0
        fc[POISON, first + MARKER + layer : first + MARKER + LAYERS] = 1.0
    share = 1 / math.sqrt(len(BALLAST))  # of the fixed length, when all slots are alike
    constant_lane, ballast_lane = HEADS * HEAD - 2, HEADS * HEAD - 1
    for lane in (constant_lane, ballast_lane):  # taken from the second head; the first then serves those tokens alone
        token = lane - HEAD
        value[lane], output[:, lane] = 0.0, 0.0
        output[token, token] = HEADS * TOKEN_GAIN
    value[constant_lane, :LIVE_TOKENS] = 1.0
    output[CONSTANT, constant_lane] = len(BALLAST) * share
    value[ballast_lane, HIDDEN : HIDDEN + LIVE_TOKENS] = 1.0
    output[list(BALLAST), ballast_lane] = share
    head[POISONED_GUESS, [POISON, CONSTANT]] = ALARM_GAIN
    head[POISONED_GUESS, list(BALLAST)] = -ALARM_GAIN
