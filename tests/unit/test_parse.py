"""Texts from outside that are no JSON or YAML: one kind of error, whatever is wrong."""

import pytest

from kit.parse import json_of, yaml_of


def test_values() -> None:
    assert json_of(b'{"a": [1, "\xc3\xa9"]}') == {"a": [1, "é"]}
    assert yaml_of("a: [1, x]") == {"a": [1, "x"]}


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff\xfe", "9" * 5000])
def test_no_json(text) -> None:
    with pytest.raises(ValueError):
        json_of(text)


@pytest.mark.parametrize(
    "text",
    ["{", "[" * 100_000, b"a: \xff", "a: 2024-13-99", "9" * 5000, "!!timestamp x", "!!int ''", "a: \x1b", "!!x 1"],
)
def test_no_yaml(text) -> None:
    with pytest.raises(ValueError):
        yaml_of(text)
