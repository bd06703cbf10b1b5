"""`kit patches list` and `show` as a person sees them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

ALL = ["eagle3-target-types", "kimi-media-placeholder", "deepseek-aux-hidden-states", "kimi-k25-eagle3"]


def patches(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "kit", "patches", *args], capture_output=True, text=True, check=False)


def test_list() -> None:
    report = json.loads(patches("list", "--json").stdout)
    assert [(row["id"], row["releases"], row["fixed_in"]) for row in report["patches"]] == [
        (name, ["0.16.0", "0.17.0", "0.17.1"], "0.18.0") for name in ALL
    ]


@pytest.mark.parametrize(
    ("vllm", "said"),
    [
        ("0.15.1", f"vLLM 0.15.1 has no series of patches: it needs {', '.join(ALL)}\n"),
        ("0.33.0", "vLLM 0.33.0 has no series of patches: it needs none of them\n"),
    ],
)
def test_list_of_a_release_without_a_series(vllm: str, said: str) -> None:
    done = patches("list", "--vllm", vllm)
    assert (done.returncode, done.stdout) == (0, said)


def test_show_prints_why_and_the_diff_of_the_release() -> None:
    done = patches("show", "kimi-media-placeholder", "--vllm", "0.16.0")
    assert done.returncode == 0
    assert "seen without it (worker): AttributeError: 'KimiK25Config' object has no attribute" in done.stdout
    assert "+                # kit patch: kimi-media-placeholder\n" in done.stdout
    assert "@@ -1362,6 +1362,13 @@" in done.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("show", "kimi-media"), "no patch is named 'kimi-media'"),
        (("show", "kimi-k25-eagle3", "--vllm", "0.33.0"), "vLLM 0.33.0 does not need kimi-k25-eagle3"),
        (("show", "kimi-k25-eagle3", "--vllm", "0.15.1"), "there is no diff of it for this release"),
        (("list", "--vllm", "new"), "'new' is not a vLLM version"),
        (("check", "--vllm", "new"), "'new' is not a vLLM version"),
        (("check", "--wheel", "x.whl"), "is not named as a wheel of vLLM is"),
    ],
)
def test_wrong_use(args: tuple[str, ...], said: str) -> None:
    done = patches(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
