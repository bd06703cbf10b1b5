"""How the reference models use their hidden dimensions, and the rule that every one of them follows.

The residual stream of the target is a ledger that a drafter can read:

    0..127    one-hot of the token at this position (1.0)
    128..135  one marker per layer: layer l adds 1.0 to dimension 128+l when it has run
    136..140  used inside a drafter only (see `drafters`)
    192..255  small noise from attention, read by nobody
"""

from __future__ import annotations

HIDDEN = 256
LAYERS = 8
LIVE_TOKENS = 128  # words t0..t127
VOCABULARY = 136  # the live tokens and 8 special ones
STEP = 7  # coprime to 128: from any token the text visits every other before it repeats

MARKER = 128
POISON = 136
CONSTANT = 137
BALLAST = (138, 139, 140)
NOISE = 192

AUXILIARY_LAYERS = (2, LAYERS // 2, LAYERS - 3)
"""vLLM's default for EAGLE-3: slot s of the auxiliary states is the residual stream at the input of this layer."""

SPECIAL_TOKENS = (
    "<|media_pad|>",
    "<|kimi_k25_video_placeholder|>",
    "<|media_begin|>",
    "<|media_content|>",
    "<|media_end|>",
    "<s>",
    "</s>",
    "<unk>",
)
"""Token ids from 128 on. Beginning and end of text are not live, so no greedy text ever ends by itself."""


def special(token: str) -> int:
    """The id of a special token."""
    return LIVE_TOKENS + SPECIAL_TOKENS.index(token)


def next_token(token: int) -> int:
    """The token that every target form says after `token`; only live tokens (0..127) have one."""
    if not 0 <= token < LIVE_TOKENS:
        raise ValueError(f"token {token} is not a live token; those are 0..{LIVE_TOKENS - 1}")
    return (token + STEP) % LIVE_TOKENS
