"""Redaction: each rule by its example, nothing that a log needs, and a list that tells nothing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import UsageError
from kit.support.redact import Redactor, further, literal, rules

LOGS = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_each_rule_does_what_its_example_shows(rule) -> None:  # type: ignore[no-untyped-def]
    redactor = Redactor(rules())
    assert redactor.text(rule.example, "x") == rule.shown
    assert [r.rule for r in redactor.done] == [rule.id]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("'env': ['HF_TOKEN=hf_abc', 'PATH=/usr/bin']", "'env': ['HF_TOKEN=[secret]', 'PATH=/usr/bin']"),
        ("args: {'api_key': ['top secret'], 'port': 80}", "args: {'api_key': ['[secret]'], 'port': 80}"),
        ("vllm serve /m --api-key abcd --port 80", "vllm serve /m --api-key [secret] --port 80"),
        ("http_proxy=http://bob:pa%24s@10.0.0.5:3128/", "http_proxy=http://[login]@[address-1]:3128/"),
        ('"Env": ["VLLM_API_KEY=k-1", "A=b"]', '"Env": ["VLLM_API_KEY=[secret]", "A=b"]'),
        ("10.0.0.5 asked 10.0.0.6, 10.0.0.5 answered", "[address-1] asked [address-2], [address-1] answered"),
    ],
)
def test_lines_as_they_come(line: str, shown: str) -> None:
    assert Redactor(rules()).text(line, "x") == shown


@pytest.mark.parametrize(
    "line",
    [
        "Using max model len 512, max_num_batched_tokens=8192, num_speculative_tokens: 5",
        "min_tokens parameters won't work; embed_tokens identical; eos_token='stop', pad_token: x",
        "api_key_file: secrets/key",
        "VLLM_API_KEY: null",
        "(APIServer pid=1) INFO 11-29 15:42:40 [model.py:619] world_size=2 at tcp://127.0.0.1:56009",
        "vLLM is using nccl==2.27.5, version 0.16.0.1, NCCL version 2.28.9+cuda13.0",
        "GPU 00000000:3B:00.0 at 08:00:39, ::1",
    ],
)
def test_what_a_log_needs_stays(line: str) -> None:
    assert Redactor(rules()).text(line, "x") == line


def test_real_logs_lose_addresses_and_homes_only() -> None:
    redactor = Redactor(rules())
    for path in [*(LOGS / "watch").glob("*.log"), *(LOGS / "logs").rglob("*.log")]:
        redactor.text(path.read_text(errors="replace"), path.name)
    assert {r.rule for r in redactor.done} <= {"ipv4", "ipv6", "home"}


def test_the_list_names_rule_file_and_line_and_never_the_value() -> None:
    redactor = Redactor(rules())
    redactor.text("one\npassword: hunter22\nthree 10.1.2.3 10.1.2.3 10.9.9.9\n", "kit.yaml")
    found = [(r.rule, r.file, r.line, r.instead, r.count) for r in redactor.done]
    assert found == [
        ("named-secret", "kit.yaml", 2, "[secret]", 1),
        ("ipv4", "kit.yaml", 3, "[address-1]", 2),
        ("ipv4", "kit.yaml", 3, "[address-2]", 1),
    ]
    assert "hunter22" not in repr(redactor.done)


def test_one_numbering_over_all_files() -> None:
    redactor = Redactor(rules())
    assert redactor.text("10.0.0.1", "a") == "[address-1]"
    assert redactor.text("10.0.0.2 10.0.0.1", "b") == "[address-2] [address-1]"


def test_known_texts_are_found_wherever_they_stand_and_names_as_words() -> None:
    own = [
        *literal("known-secret", "secret", ["s3cr3t", "abc", ""], whole=False),
        *literal("user-name", "user", ["al", "alice"], whole=True),
    ]
    shown = Redactor(own).text("xs3cr3ty abc alice also al-x al", "x")
    assert shown == "x[secret]y abc [user-1] also al-x [user-2]"


def test_further_patterns_and_a_bad_one() -> None:
    assert Redactor(further([r"ACME-\d+"])).text("order ACME-77", "x") == "order [redacted-1]"
    with pytest.raises(UsageError, match=r"--redact \("):
        further(["("])


def test_very_long_lines_are_got_through() -> None:
    redactor = Redactor(rules())
    for text in ("a" * 300_000, "a_b-" * 60_000, "1." * 100_000, "a:" * 100_000, "://" + "x" * 200_000, "@" * 100_000):
        redactor.text(text, "x")
    assert redactor.done == [] or {r.rule for r in redactor.done} <= {"ipv4", "ipv6"}


@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = Redactor(rules()).text(text, "x")
    assert Redactor(rules()).text(once, "x") == once
