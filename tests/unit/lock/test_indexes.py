"""Where pip looks, read from `pip config list`."""

import pytest

from kit.lock.indexes import Indexes, parse

LINES = [
    ":env:.find-links='/srv/wheels'",
    "global.index-url='https://index.example/simple'",
    "global.extra-index-url='https://one.example https://two.example'",
    "global.find-links='/elsewhere'",
    "install.constraint='/etc/constraints.txt'",
    "not a setting",
]


def test_the_environment_wins_and_lists_are_split():
    assert parse(LINES) == Indexes(
        index="https://index.example/simple",
        extra=("https://one.example", "https://two.example"),
        links=("/srv/wheels",),
        constraints=("/etc/constraints.txt",),
    )
    assert parse([]) == Indexes("", (), (), ())


def test_an_extra_index_joins_the_configured_ones(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KIT_EXTRA_INDEX", "https://cpu.example/whl")
    found = parse(LINES)
    assert found.pip_options() == [
        "--extra-index-url=https://one.example",
        "--extra-index-url=https://two.example",
        "--extra-index-url=https://cpu.example/whl",
    ]
    assert "--extra-index-url=https://cpu.example/whl" in found.uv_options()
    monkeypatch.delenv("KIT_EXTRA_INDEX")
    assert found.pip_options() == []
