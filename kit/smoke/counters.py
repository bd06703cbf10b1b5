"""vLLM's speculative counters from the text of /metrics; pure.

Names as vLLM's V1 engine has printed them since 0.8: `vllm:spec_decode_num_drafts_total`,
`..._num_draft_tokens_total`, `..._num_accepted_tokens_total` and
`..._num_accepted_tokens_per_pos_total{position=}`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

_SCALARS = {
    "vllm:spec_decode_num_drafts_total": "drafts",
    "vllm:spec_decode_num_draft_tokens_total": "draft_tokens",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted_tokens",
    "vllm:generation_tokens_total": "generated_tokens",
    "vllm:request_success_total": "requests",
    "vllm:num_requests_running": "running",
}
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


@dataclass(frozen=True)
class Counters:
    """What the engine has counted since its start (tokens and requests), summed over engines.

    `running` is how many requests run at this moment; `speculating` whether the counters of
    speculative decoding are there at all.
    """

    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    per_position: dict[int, int] = field(default_factory=dict)
    generated_tokens: int = 0
    requests: int = 0
    running: int = 0
    speculating: bool = False

    def since(self, before: Counters) -> Counters:
        """The difference to an earlier reading. A counter that fell means a restart between the two."""
        return Counters(
            self.drafts - before.drafts,
            self.draft_tokens - before.draft_tokens,
            self.accepted_tokens - before.accepted_tokens,
            {p: n - before.per_position.get(p, 0) for p, n in self.per_position.items()},
            self.generated_tokens - before.generated_tokens,
            self.requests - before.requests,
            self.running,
            self.speculating,
        )

    @property
    def acceptance_rate(self) -> float:
        """Accepted tokens a draft token, 0 to 1; 0 when nothing was drafted."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """1 + accepted tokens a draft."""
        return 1 + self.accepted_tokens / self.drafts if self.drafts else 1.0


def parse(text: str) -> Counters:
    """Read the text of /metrics. Raises ValueError when it is not that format."""
    totals = dict.fromkeys(_SCALARS.values(), 0.0)
    per_position: dict[int, int] = {}
    speculating = False
    short = "\n".join(line for line in text.split("\n") if "_bucket{" not in line)  # most of it, and slow to read
    for family in text_string_to_metric_families(short):
        for sample in family.samples:
            if sample.name in _SCALARS:
                totals[_SCALARS[sample.name]] += sample.value
                speculating |= "spec_decode" in sample.name
            elif sample.name == _PER_POSITION:
                position = int(sample.labels["position"])
                per_position[position] = per_position.get(position, 0) + int(sample.value)
    numbers = {name: int(value) for name, value in totals.items()}
    return Counters(per_position=dict(sorted(per_position.items())), speculating=speculating, **numbers)
