"""What vLLM must count and say for a reference drafter: the loop of speculative decoding on known tokens.

Shown against real servers (tests/docker runs them again): the counters are equal to the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kit.reference.drafters import DRAFTERS, Drafter
from kit.reference.layout import next_token


@dataclass(frozen=True)
class Prediction:
    """Counters of one request, named as vLLM's `vllm:spec_decode_*` metrics are, and its new tokens.

    `per_position[i]` is how many drafts had their draft token i (from 0) accepted.
    """

    num_drafts: int
    num_draft_tokens: int
    num_accepted_tokens: int
    per_position: tuple[int, ...]
    tokens: tuple[int, ...]

    @property
    def acceptance_rate(self) -> float:
        """Accepted of drafted tokens, 0 when nothing was drafted."""
        return self.num_accepted_tokens / self.num_draft_tokens if self.num_draft_tokens else 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens that one step of the target yields: 1 + accepted / drafts."""
        return 1 + self.num_accepted_tokens / self.num_drafts if self.num_drafts else 1.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with the rates."""
        return {
            "num_drafts": self.num_drafts,
            "num_draft_tokens": self.num_draft_tokens,
            "num_accepted_tokens": self.num_accepted_tokens,
            "acceptance_rate": round(self.acceptance_rate, 6),
            "mean_acceptance_length": round(self.mean_acceptance_length, 6),
            "per_position": list(self.per_position),
            "text": words(self.tokens),
        }


def predict(drafter: str | Drafter, first_token: int, max_tokens: int, num_speculative_tokens: int) -> Prediction:
    """Counters and tokens of one greedy request of `max_tokens` new tokens after a prompt ending in `first_token`.

    `drafter` is a name in DRAFTERS or a drafter's own description. Holds while the request stays below the server's
    context limit. The first token comes from the prefill, without a draft; each later step drafts, accepts up to the
    first mismatch and adds one token of the target's own; the last step counts in full even where its tokens are cut
    off. KeyError for an unknown drafter, ValueError for a token that is not live or a length below 1.
    """
    if max_tokens < 1 or num_speculative_tokens < 1:
        raise ValueError("max_tokens and num_speculative_tokens must be 1 or more")
    guess = (DRAFTERS[drafter] if isinstance(drafter, str) else drafter).guess
    tokens = [next_token(first_token)]
    per_position = [0] * num_speculative_tokens
    drafts = 0
    while len(tokens) < max_tokens:
        drafts += 1
        last, accepted = tokens[-1], 0
        while accepted < num_speculative_tokens and guess(last, accepted) == next_token(last):
            last = next_token(last)
            per_position[accepted] += 1
            accepted += 1
        for _ in range(accepted + 1):
            tokens.append(next_token(tokens[-1]))
    return Prediction(
        num_drafts=drafts,
        num_draft_tokens=drafts * num_speculative_tokens,
        num_accepted_tokens=sum(per_position),
        per_position=tuple(per_position),
        tokens=tuple(tokens[:max_tokens]),
    )


def expected_text(prompt_token: int, count: int) -> str:
    """The text of the `count` tokens that every target form says after a prompt ending in `prompt_token`.

    A completion of vLLM has a space before it, since it continues the prompt's words.
    """
    tokens: list[int] = []
    for _ in range(count):
        prompt_token = next_token(prompt_token)
        tokens.append(prompt_token)
    return words(tokens)


def words(tokens: tuple[int, ...] | list[int]) -> str:
    """Live tokens as the reference tokenizer prints them."""
    return " ".join(f"t{token}" for token in tokens)
