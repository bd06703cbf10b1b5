"""Every rule knows its examples and leaves its near misses to others."""

import re
import tomllib
from pathlib import Path

import pytest

from kit.errors import MissingError, UsageError
from kit.logs import diagnose_lines
from kit.logs.rules import HOME, Rule, holds, load, read

RULES = load()
ENTRIES = {e["id"]: e for f in sorted(HOME.glob("*.toml")) for e in tomllib.loads(f.read_text())["rule"]}


def as_log(text: str, stage: str) -> list[str]:
    """A whole log around an example that is only the text of an exception, raised where `stage` says."""
    if (
        re.search(r"^\(\w+(?: \w+=\d+)? pid=", text, re.MULTILINE)
        or "Traceback" in text
        or text.startswith(("\n", "vllm serve:", "api_server.py:"))
    ):
        return text.strip("\n").split("\n")
    code = {
        "config": ("APIServer", "vllm/engine/arg_utils.py", "create_engine_config"),
        "draft-load": ("EngineCore", "vllm/v1/spec_decode/eagle.py", "load_model"),
        "load": ("EngineCore", "vllm/v1/worker/gpu_worker.py", "load_model"),
        "warmup": ("EngineCore", "vllm/v1/worker/gpu_worker.py", "profile_run"),
        "serving": ("EngineCore", "vllm/v1/engine/core.py", "run_busy_loop"),
    }
    process, file, function = code.get(stage, code["load"])
    words = ("!!!", "Fatal Python", "***", "terminate called", "Failed: Cuda", "[rank", "kernel:", "docker:", "nvcc")
    if text.startswith(words):
        return [*text.split("\n"), f"({process} pid=7) Traceback (most recent call last):",
                f'({process} pid=7)   File "/v/{file}", line 1, in {function}',
                f"({process} pid=7) RuntimeError: cancelled"]  # fmt: skip
    lines = ["Traceback (most recent call last):", f'  File "/v/{file}", line 1, in {function}', *text.split("\n")]
    return [f"({process} pid=7) {line}" for line in lines]


def named(rule: Rule, text: str) -> str | None:
    root = diagnose_lines(as_log(text, rule.stage[0] if rule.stage else ""), rules=RULES).root_cause
    return root.rule if root else None


def cases(key: str) -> list[tuple[str, str]]:
    found = []
    for name, entry in ENTRIES.items():
        texts = entry.get(key, [])
        found += [(name, t) for t in ([texts] if isinstance(texts, str) else texts)]
    return found


@pytest.mark.parametrize(
    ("name", "text"), cases("example"), ids=[f"{n}-{i}" for i, (n, _) in enumerate(cases("example"))]
)
def test_a_rule_knows_its_example(name: str, text: str) -> None:
    rule = next(r for r in RULES if r.id == name)
    assert named(rule, text) == name


@pytest.mark.parametrize(
    ("name", "text"), cases("near_miss"), ids=[f"{n}-{i}" for i, (n, _) in enumerate(cases("near_miss"))]
)
def test_a_rule_leaves_its_near_miss_alone(name: str, text: str) -> None:
    rule = next(r for r in RULES if r.id == name)
    assert named(rule, text) != name


def test_every_rule_has_an_example_a_near_miss_a_cause_and_a_remedy() -> None:
    for name, entry in ENTRIES.items():
        assert entry.get("example") and entry.get("near_miss"), name
        assert entry["cause"].endswith("."), name
        assert entry["remedy"] and all(isinstance(r, str) and r for r in entry["remedy"]), name


def test_a_star_stands_for_anything_and_order_counts() -> None:
    assert holds("max seq len (*) is larger", "the max seq len (262144)\n is larger") is False
    assert holds("max seq len (*)*is larger", "the max seq len (262144)\n is larger")
    assert not holds("b*a", "a then b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule]]\nid = 'x'\n", "category is missing"),
        ("[[rule]]\nid = 'x'\ncategory = 'weather'\ncause = 'c'\nmatch = 'm'\n", "no such category 'weather'"),
        ("[[rule]]\nid = 'x'\ncategory = 'gpu-oom'\ncause = 'c'\n", "it knows no text"),
        (
            "[[rule]]\nid = 'x'\ncategory = 'gpu-oom'\ncause = 'c'\nmatch = 'm'\ncolour = 'red'\n",
            "unknown key 'colour'",
        ),
        ("[[rule]]\nid = 'x'\ncategory = 'gpu-oom'\ncause = 'c'\nmatch = 3\n", "match must be text"),
        ("not toml", "is not a rule file"),
    ],
)
def test_a_broken_rule_file_is_refused_with_its_fault(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=said):
        read(file)


def test_an_operators_rule_goes_before_the_kits_and_a_taken_name_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        "[[rule]]\nid = 'ours'\ncategory = 'host-resource'\nrank = 0\nmatch = 'CUDA out of memory'\ncause = 'Ours.'\n"
    )
    lines = as_log("torch.OutOfMemoryError: CUDA out of memory.", "load")
    root = diagnose_lines(lines, rules=load([own])).root_cause
    assert root is not None and (root.rule, root.category) == ("ours", "host-resource")
    own.write_text(own.read_text().replace("'ours'", "'gpu-oom'"))
    with pytest.raises(UsageError, match="two rules are called 'gpu-oom'"):
        load([own])
    with pytest.raises(MissingError):
        load([tmp_path / "none.toml"])
