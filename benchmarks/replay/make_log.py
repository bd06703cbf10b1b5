"""Writes the log of a long start as vLLM 0.16 prints it: many ranks, many shards, healthy or with a crash.

    python benchmarks/replay/make_log.py --ranks 8 --shards 64 --minutes 30 --crash-at 0.83 > start.log

Each line begins with the second at which it is printed and a tab (`--plain` leaves that out); `vllm`,
the stand-in engine, prints the rest at those times, or faster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

BEGAN = datetime(2026, 3, 2, 8, 0, 0)
API, CORE, WORKER = "(APIServer pid=1)", "(EngineCore_DP0 pid=120)", "(Worker_TP{rank} pid={pid})"
SHARDS = "Loading safetensors checkpoint shards"


@dataclass(frozen=True)
class Start:
    """What start to write: `minutes` is how long the target's weights take, `crash_at` the share of shards
    (0 to 1) after which one rank dies (None: healthy), `serving_minutes` of traffic follow a healthy start."""

    ranks: int = 8
    shards: int = 64
    minutes: float = 30.0
    crash_at: float | None = None
    serving_minutes: float = 0.0


def make_log(start: Start) -> Iterator[tuple[float, str]]:
    """The lines in order: (seconds since the start, text without its newline)."""
    yield from _configuration(start)
    load_ends = 60 + start.minutes * 60
    shards = start.shards if start.crash_at is None else int(start.shards * start.crash_at)
    yield from _shards(start, 60.0, load_ends, shards)
    if start.crash_at is not None:
        yield from _crash(start, 60 + start.minutes * 60 * start.crash_at + 0.4)
        return
    yield from _after_load(start, load_ends)
    for minute in range(int(start.serving_minutes * 6)):
        yield from _traffic(load_ends + 320 + minute * 10)


def _line(at: float, who: str, where: str, text: str, level: str = "INFO") -> tuple[float, str]:
    stamp = (BEGAN + timedelta(seconds=at)).strftime("%m-%d %H:%M:%S")
    return at, f"{who} {level} {stamp} [{where}] {text}".strip()


def _worker(rank: int) -> str:
    return WORKER.format(rank=rank, pid=200 + 7 * rank)


def _configuration(start: Start) -> Iterator[tuple[float, str]]:
    for text in ("", "       █     █     █▄   ▄█", " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.16.0", "  █▄█▀ █     █"):
        yield _line(8, API, "utils.py:287", text)
    yield _line(
        8, API, "utils.py:223", f"non-default args: {{'model': '/model', 'tensor_parallel_size': {start.ranks}}}"
    )
    yield _line(12, API, "model.py:529", "Resolved architecture: KimiK25ForConditionalGeneration")
    yield _line(12, API, "model.py:529", "Resolved architecture: LlamaForCausalLMEagle3")
    engine = "Initializing a V1 LLM engine (v0.16.0) with config: model='/model', "
    engine += "speculative_config=SpeculativeConfig(method='eagle3')"
    yield _line(24, CORE, "core.py:97", engine)
    for rank in range(start.ranks):
        init = f"world_size={start.ranks} rank={rank} local_rank={rank} "
        init += "distributed_init_method=tcp://127.0.0.1:56009 backend=nccl"
        yield _line(38 + rank * 0.2, f"(Worker pid={200 + 7 * rank})", "parallel_state.py:1234", init)
    yield _line(42, _worker(0), "pynccl.py:111", "vLLM is using nccl==2.27.5")
    for rank in range(start.ranks):
        place = f"rank {rank} in world size {start.ranks} is assigned as DP rank 0, PP rank 0, PCP rank 0, "
        place += f"TP rank {rank}, EP rank {rank}"
        yield _line(50, _worker(rank), "parallel_state.py:1445", place)
    for rank in range(start.ranks):
        yield _line(56, _worker(rank), "gpu_model_runner.py:4021", "Starting to load model /model...")


def _shards(start: Start, begin: float, end: float, count: int) -> Iterator[tuple[float, str]]:
    each = (end - begin) / start.shards
    for done in range(count + 1):
        elapsed, left = _clock(done * each), _clock((start.shards - done) * each) if done else "?"
        rate = f"{each:5.2f}s/it" if done else "?it/s"
        bar = f"{SHARDS}: {100 * done // start.shards:3d}% Completed | {done}/{start.shards} [{elapsed}<{left}, {rate}]"
        at = begin + done * each
        yield at, _worker(0) + " \r" + bar


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes:02d}:{rest:02d}"


def _after_load(start: Start, at: float) -> Iterator[tuple[float, str]]:
    w = _worker(0)
    yield _line(at + 1, w, "default_loader.py:293", f"Loading weights took {start.minutes * 60:.2f} seconds")
    for rank in range(start.ranks):
        yield _line(at + 2 + rank, _worker(rank), "gpu_model_runner.py:4060", "Loading drafter model...")
    for done, text in (
        (0, f"{SHARDS}:   0% Completed | 0/1 [00:00<?, ?it/s]"),
        (4, f"{SHARDS}: 100% Completed | 1/1 [00:04<00:00,  4.10s/it]"),
    ):
        yield at + 10 + done, w + " \r" + text
    yield _line(at + 15, w, "default_loader.py:293", "Loading weights took 4.12 seconds")
    yield _line(at + 16, w, "gpu_model_runner.py:4221", "Model loading took 71.43 GiB memory and 1820.123456 seconds")
    yield _line(
        at + 40,
        w,
        "backends.py:916",
        "Using cache directory: /cache/vllm/torch_compile_cache/1f0a/rank_0_0/backbone for vLLM's torch.compile",
    )
    yield _line(at + 40, w, "backends.py:976", "Dynamo bytecode transform time: 14.20 s")
    yield _line(at + 110, w, "backends.py:353", "Compiling a graph for compile range (1, 8192) takes 58.40 s")
    yield _line(at + 120, w, "monitor.py:35", "torch.compile takes 76.10 s in total")
    yield _line(at + 150, w, "gpu_worker.py:373", "Available KV cache memory: 12.41 GiB")
    yield _line(at + 151, CORE, "kv_cache_utils.py:1307", "GPU KV cache size: 185,344 tokens")
    yield _line(at + 151, CORE, "kv_cache_utils.py:1312", "Maximum concurrency for 131,072 tokens per request: 1.41x")
    yield _line(at + 160, w, "kernel_warmup.py:69", "Warming up FlashInfer attention.")
    graphs = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)"
    for done in range(0, 52, 3):
        share = 100 * done // 51
        drawn = f"{share:3d}%|{'█' * (share // 10):<10}| {done}/51"
        yield at + 200 + done, f"{w} \r{graphs}: {drawn} [{_clock(done)}<{_clock(51 - done)},  1.00it/s]"
    yield _line(at + 254, w, "gpu_model_runner.py:5120", "Graph capturing finished in 54 secs, took 1.13 GiB")
    yield _line(
        at + 260, CORE, "core.py:278", "init engine (profile, create kv cache, warmup model) took 244.00 seconds"
    )
    yield _line(at + 262, API, "api_server.py:481", "Supported tasks: ['generate']")
    yield _line(at + 264, API, "api_server.py:486", "Starting vLLM API server 0 on http://0.0.0.0:8000")
    yield at + 266, f"{API} INFO:     Started server process [1]"
    yield at + 266, f"{API} INFO:     Waiting for application startup."
    yield at + 266, f"{API} INFO:     Application startup complete."


def _crash(start: Start, at: float) -> Iterator[tuple[float, str]]:
    """One rank dies while it loads; every layer above passes the news on, as 0.16 does."""
    rank = min(3, start.ranks - 1)
    trace = (
        ("vllm/v1/executor/multiproc_executor.py", 580, "__init__", "self.worker.load_model()"),
        ("vllm/v1/worker/gpu_worker.py", 292, "load_model", "self.model_runner.load_model(eep_scale_up=eep_scale_up)"),
        (
            "vllm/model_executor/model_loader/default_loader.py",
            291,
            "load_weights",
            "loaded = model.load_weights(weights)",
        ),
    )
    who, where = _worker(rank), "multiproc_executor.py:783"
    yield _line(at, who, where, "WorkerProc failed to start.", "ERROR")
    yield _line(at, who, where, "Traceback (most recent call last):", "ERROR")
    for file, line, function, code in trace:
        yield _line(
            at,
            who,
            where,
            f'  File "/opt/venv/lib/python3.12/site-packages/{file}", line {line}, in {function}',
            "ERROR",
        )
        yield _line(at, who, where, f"    {code}", "ERROR")
    reason = "safetensors_rust.SafetensorError: Error while deserializing header: "
    reason += "incomplete metadata, file not fully covered"
    yield _line(at, who, where, reason, "ERROR")
    core, end = "core.py:1006", at + 2
    yield _line(end, CORE, core, "EngineCore failed to start.", "ERROR")
    yield _line(end, CORE, core, "Traceback (most recent call last):", "ERROR")
    yield _line(
        end,
        CORE,
        core,
        '  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 996, in run_engine_core',
        "ERROR",
    )
    news = "Exception: WorkerProc initialization failed due to an exception in a background process. "
    news += "See stack trace for root cause."
    yield _line(end, CORE, core, news, "ERROR")
    yield end + 1, f"{API} Traceback (most recent call last):"
    yield end + 1, f'{API}   File "/opt/venv/bin/vllm", line 8, in <module>'
    last = "RuntimeError: Engine core initialization failed. See root cause above. "
    last += "Failed core proc(s): {'EngineCore_DP0': 1}"
    yield end + 1, f"{API} {last}"


def _traffic(at: float) -> Iterator[tuple[float, str]]:
    for second in range(10):
        yield at + second, f'{API} INFO:     127.0.0.1:40122 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    load = "Engine 000: Avg prompt throughput: 812.1 tokens/s, Avg generation throughput: 96.3 tokens/s, "
    load += "Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 4.2%, Prefix cache hit rate: 11.0%"
    yield _line(at + 9, API, "loggers.py:257", load)
    drafts = "SpecDecoding metrics: Mean acceptance length: 2.61, Accepted throughput: 59.40 tokens/s, "
    drafts += "Drafted throughput: 184.50 tokens/s, Accepted: 594 tokens, Drafted: 1845 tokens, "
    drafts += "Per-position acceptance rate: 0.641, 0.402, 0.283, 0.174, 0.110, Avg Draft acceptance rate: 32.2%"
    yield _line(at + 9, API, "metrics.py:100", drafts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--crash-at", type=float)
    parser.add_argument("--serving-minutes", type=float, default=0.0)
    parser.add_argument("--plain", action="store_true", help="leave out the times")
    given = parser.parse_args()
    start = Start(given.ranks, given.shards, given.minutes, given.crash_at, given.serving_minutes)
    for at, text in make_log(start):
        sys.stdout.write(text + "\n" if given.plain else f"{at:.3f}\t{text}\n")


if __name__ == "__main__":
    main()
