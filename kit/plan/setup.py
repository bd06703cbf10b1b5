"""What a plan is made for: the cards, how the model is spread over them, and what it shall serve."""

from __future__ import annotations

from dataclasses import dataclass, replace

GIB = 1 << 30


@dataclass(frozen=True)
class Card:
    """Memory of one card in bytes: what CUDA calls its total, which is NVML's total less what it calls reserved."""

    name: str
    total: int


@dataclass(frozen=True)
class Setup:
    """One way to run a model.

    `card` is None on the CPU, where `kv_bytes` is what the engine is told to set aside for the KV cache of one rank.
    `dtype_bytes` and `kv_dtype_bytes` are bytes of one activation and of one number in the KV cache. `mla` says
    whether an MLA model is run as such: with VLLM_MLA_DISABLE=1 it keeps full keys and values.
    """

    card: Card | None
    count: int
    tensor: int
    pipeline: int = 1
    expert: bool = False
    utilization: float = 0.9
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    dtype_bytes: int = 2
    kv_dtype_bytes: int | None = None
    eager: bool = False
    mla: bool = True
    kv_bytes: int | None = None
    vllm: str | None = None

    def but(self, **changes: object) -> Setup:
        """The same with some settings changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def sequences(self) -> int:
        """max_num_seqs, or the API server's default for such a card."""
        if self.max_num_seqs:
            return self.max_num_seqs
        if self.card is None:
            return 128 * self.tensor * self.pipeline
        return 1024 if self.card.total >= 70 * GIB else 256

    @property
    def batched_tokens(self) -> int:
        """max_num_batched_tokens, or the API server's default for such a card; never below the sequences."""
        if self.max_num_batched_tokens:
            return self.max_num_batched_tokens
        if self.card is None:
            default = 2048 * self.tensor * self.pipeline
        else:
            default = 16384 if self.card.total >= 160 * GIB else 8192 if self.card.total >= 70 * GIB else 2048
        return max(default, self.sequences)
