"""What /metrics says of load and latency at one moment; pure. The counters of drafting are in kit.smoke.counters."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"^(?P<name>vllm:[\w:]+)(?:\{[^}]*\})? (?P<value>[-+.\deE]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Gauges:
    """KV cache use (0 to 1, of the fullest engine), requests that run and wait, and for time to first token and time
    between tokens the seconds and the number of events so far. None: this vLLM does not print it."""

    kv_use: float | None = None
    running: int | None = None
    waiting: int | None = None
    first_token_s: float | None = None
    first_tokens: float | None = None
    between_s: float | None = None
    betweens: float | None = None
    preemptions: float | None = None


_SUMS = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:time_to_first_token_seconds_sum": "first_token_s",
    "vllm:time_to_first_token_seconds_count": "first_tokens",
    "vllm:inter_token_latency_seconds_sum": "between_s",
    "vllm:inter_token_latency_seconds_count": "betweens",
    "vllm:time_per_output_token_seconds_sum": "between_s",
    "vllm:time_per_output_token_seconds_count": "betweens",
    "vllm:num_preemptions_total": "preemptions",
}
_KV = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")


def gauges(text: str) -> Gauges:
    """Read the text of /metrics; what is not there or no number stays None."""
    found: dict[str, float] = {}
    by_name: dict[str, float] = {}
    kv: list[float] = []
    for match in _LINE.finditer(text):
        name = match["name"]
        try:
            value = float(match["value"])
        except ValueError:
            continue
        if name in _KV:
            kv.append(value)
        elif name in _SUMS:
            by_name[name] = by_name.get(name, 0.0) + value
    for name, value in by_name.items():  # a release that prints the old and the new name counts once
        found.setdefault(_SUMS[name], value)
    running, waiting = found.pop("running", None), found.pop("waiting", None)
    return Gauges(
        kv_use=max(kv) if kv else None,
        running=None if running is None else int(running),
        waiting=None if waiting is None else int(waiting),
        **found,
    )
