"""The verdict of the smoke test from what was counted; pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kit.config.schema import Gates
from kit.smoke.counters import Counters


@dataclass(frozen=True)
class Expected:
    """The counters that a reference pair must show."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    per_position: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """One prompt's outcome. Times in seconds; `error` when it failed, else None."""

    prompt: str
    text: str
    tokens: int
    first_token_s: float
    total_s: float
    error: str | None = None


@dataclass(frozen=True)
class Gate:
    """One demand: what was wanted, what was found, pass, fail or warn."""

    name: str
    want: str
    found: str
    status: str


@dataclass(frozen=True)
class SmokeResult:
    """What `kit smoke` reports. `counted` is the difference over the test; times in seconds."""

    verdict: str
    num_speculative_tokens: int
    counted: Counters
    expected: Expected | None
    gates: tuple[Gate, ...]
    requests: int
    errors: int
    ttft_s: float | None
    tokens_per_s: float | None

    def per_position(self) -> list[float]:
        """Acceptance rate at each draft position: accepted there / drafts."""
        drafts = self.counted.drafts
        return [
            self.counted.per_position.get(p, 0) / drafts if drafts else 0.0 for p in range(self.num_speculative_tokens)
        ]

    def to_json(self) -> dict[str, Any]:
        """The contract kit.smoke/1."""
        expected = self.expected
        return {
            "schema": "kit.smoke/1",
            "verdict": self.verdict,
            "num_speculative_tokens": self.num_speculative_tokens,
            "num_drafts": self.counted.drafts,
            "num_draft_tokens": self.counted.draft_tokens,
            "num_accepted_tokens": self.counted.accepted_tokens,
            "acceptance_rate": round(self.counted.acceptance_rate, 6),
            "mean_acceptance_length": round(self.counted.mean_acceptance_length, 6),
            "per_position": [round(rate, 6) for rate in self.per_position()],
            "expected": expected
            and {
                "num_drafts": expected.drafts,
                "num_draft_tokens": expected.draft_tokens,
                "num_accepted_tokens": expected.accepted_tokens,
                "per_position": list(expected.per_position),
            },
            "gates": [gate.__dict__ for gate in self.gates],
            "requests": self.requests,
            "errors": self.errors,
            "ttft_s": self.ttft_s and round(self.ttft_s, 4),
            "tokens_per_s": self.tokens_per_s and round(self.tokens_per_s, 2),
        }


def judge(
    answers: Sequence[Answer],
    counted: Counters,
    num_speculative_tokens: int,
    gates: Gates,
    expected: Expected | None,
    texts: Sequence[str] | None,
    other_requests: int,
) -> SmokeResult:
    """Hold what was counted against the gates.

    `num_speculative_tokens` is 0 without a drafter; `texts` are the answers of a reference target
    (one a prompt); `other_requests` is how many requests that
    were not ours ended meanwhile.
    """
    good = [a for a in answers if a.error is None]
    ttft = statistics.median(a.first_token_s for a in good) if good else None
    decode = [(a.tokens - 1) / (a.total_s - a.first_token_s) for a in good if a.total_s > a.first_token_s]
    speed = statistics.median(decode) if decode else None
    found = [_requests(answers, good), *_traffic(other_requests)]
    if num_speculative_tokens:
        found += _speculation(counted, num_speculative_tokens, gates)
    if texts is not None and gates.exact:
        found.append(_text(answers, texts))
    if expected is not None and gates.exact:
        found += _exact(counted, expected, other_requests)
    found += _speed(gates, ttft, speed)
    verdict = "fail" if any(gate.status == "fail" for gate in found) else "pass"
    return SmokeResult(
        verdict,
        num_speculative_tokens,
        counted,
        expected,
        tuple(found),
        len(answers),
        len(answers) - len(good),
        ttft,
        speed,
    )


def _gate(name: str, want: str, found: str, ok: bool) -> Gate:
    return Gate(name, want, found, "pass" if ok else "fail")


def _requests(answers: Sequence[Answer], good: Sequence[Answer]) -> Gate:
    empty = [a.prompt for a in good if not a.text.strip()]
    problem = next((f"{a.prompt}: {a.error}" for a in answers if a.error), None) or (
        f"{empty[0]}: an empty answer" if empty else None
    )
    return _gate("requests", f"{len(answers)} answered", problem or f"{len(good)} answered", problem is None)


def _traffic(other: int) -> list[Gate]:
    if other <= 0:
        return []
    return [Gate("other traffic", "none", f"{other} other requests moved the counters", "warn")]


def _speculation(counted: Counters, k: int, gates: Gates) -> list[Gate]:
    if not counted.drafts:
        why = "the engine drafted nothing" if counted.speculating else "the engine has no speculative counters"
        return [_gate("drafts", "more than 0", why, False)]
    rows = [
        _gate(
            "tokens per draft",
            f"{k} in every draft",
            f"{counted.draft_tokens} in {counted.drafts} drafts",
            counted.draft_tokens == k * counted.drafts,
        )
    ]
    if gates.acceptance_rate is not None:
        rate = counted.acceptance_rate
        rows.append(
            _gate("acceptance rate", f">= {gates.acceptance_rate:.3f}", f"{rate:.3f}", rate >= gates.acceptance_rate)
        )
    if gates.mean_acceptance_length is not None:
        length = counted.mean_acceptance_length
        want = gates.mean_acceptance_length
        rows.append(_gate("mean acceptance length", f">= {want:.2f}", f"{length:.2f}", length >= want))
    for position, want in enumerate(gates.per_position):
        rate = counted.per_position.get(position, 0) / counted.drafts
        rows.append(_gate(f"acceptance at position {position + 1}", f">= {want:.3f}", f"{rate:.3f}", rate >= want))
    if counted.accepted_tokens == 0:
        rows.append(_gate("any draft token accepted", "more than 0", "0: the drafter is never right", False))
    return rows


def _text(answers: Sequence[Answer], texts: Sequence[str]) -> Gate:
    wrong = [a.prompt for a, text in zip(answers, texts, strict=True) if a.text.split() != text.split()]
    return _gate("text", "as the model's rule says", f"wrong after {', '.join(wrong)}" if wrong else "equal", not wrong)


def _exact(counted: Counters, expected: Expected, other: int) -> list[Gate]:
    pairs = [
        ("drafts", expected.drafts, counted.drafts),
        ("draft tokens", expected.draft_tokens, counted.draft_tokens),
        ("accepted tokens", expected.accepted_tokens, counted.accepted_tokens),
    ]
    note = " (other traffic moved the counters: repeat when it is quiet)" if other > 0 else ""
    rows = [_gate(f"exact {name}", str(want), f"{found}{note}", want == found) for name, want, found in pairs]
    want_positions = list(expected.per_position)
    found_positions = [counted.per_position.get(p, 0) for p in range(len(want_positions))]
    rows.append(
        _gate(
            "exact per position",
            " ".join(map(str, want_positions)),
            " ".join(map(str, found_positions)) + note,
            want_positions == found_positions,
        )
    )
    return rows


def _speed(gates: Gates, ttft: float | None, speed: float | None) -> list[Gate]:
    rows = []
    if gates.ttft_s is not None and ttft is not None:
        rows.append(_gate("time to first token", f"<= {gates.ttft_s:g} s", f"{ttft:.3f} s", ttft <= gates.ttft_s))
    if gates.tokens_per_s is not None and speed is not None:
        rows.append(_gate("tokens a second", f">= {gates.tokens_per_s:g}", f"{speed:.1f}", speed >= gates.tokens_per_s))
    return rows
