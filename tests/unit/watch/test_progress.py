"""Progress bars as vLLM's releases and tqdm print them."""

import pytest

from kit.watch.clock import LogClock
from kit.watch.progress import Bar, parse_bar


@pytest.mark.parametrize(
    ("text", "bar"),
    [
        (
            "Loading safetensors checkpoint shards:  83% Completed | 53/64 [24:50<05:09, 28.12s/it]",
            Bar("Loading safetensors checkpoint shards", 53, 64, 1490.0, 309.0, 1 / 28.12),
        ),
        (
            "\rLoading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]",
            Bar("Loading safetensors checkpoint shards", 0, 1, 0.0, None, None),
        ),
        (
            "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|██████████| 51/51 [00:06<00:00,  8.12it/s]",
            Bar("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)", 51, 51, 6.0, 0.0, 8.12),
        ),
        (
            "A:   0%|          | 0/9 [00:00<?, ?it/s]\rA:  33%|###       | 3/9 [1:00:00<2:00:00, 1200.00s/it]",
            Bar("A", 3, 9, 3600.0, 7200.0, 1 / 1200),
        ),
        ("JIT kernel warmup (9 compile keys):  50%|#####     | 2/4 [00:02<00:02,  1.00kernel/s]",
         Bar("JIT kernel warmup (9 compile keys)", 2, 4, 2.0, 2.0, 1.0)),
    ],
)  # fmt: skip
def test_bars(text: str, bar: Bar) -> None:
    if text.startswith("A"):
        text = text.replace("A:", "Ab:")
        bar = Bar("Ab", *[getattr(bar, n) for n in ("done", "total", "elapsed_s", "left_s", "per_s")])
    assert parse_bar(text) == bar


@pytest.mark.parametrize(
    "text",
    [
        "Prefetching checkpoint files: 10% (1/3)",
        "GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%",
        "100% | [",
        "",
        "x" * 10000 + "%" + "[",
    ],
)
def test_no_bars(text: str) -> None:
    assert parse_bar(text) is None


def test_the_clock_goes_on_over_new_year_and_never_back() -> None:
    clock = LogClock()
    assert clock.at("(APIServer pid=1) INFO 12-31 23:59:58 [x.py:1] a") == 0
    assert clock.at("no stamp") == 0
    assert clock.at("INFO 01-01 00:00:03 [x.py:1] b") == 5
    assert clock.at("ERROR 12-31 23:59:59 [x.py:1] c") == 5
    assert clock.at("INFO 13-41 23:59:59 [x.py:1] d") == 5
    assert clock.at("INFO 02-29 00:00:00 [x.py:1] e") > 5
