"""Making ahead in a thread: order, errors, and an end when nobody asks any more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from kit.bundle.ahead import DEPTH, ahead
from kit.bundle.parts import CHUNK, chunks


def test_same_items_in_the_same_order():
    assert list(ahead(range(1000))) == list(range(1000))
    assert list(ahead(ahead(ahead([])))) == []


def test_an_error_comes_after_what_was_made_before_it():
    def failing() -> Iterator[int]:
        yield from range(10)
        raise OSError(28, "No space left on device")

    seen = []
    with pytest.raises(OSError, match="No space left"):
        for item in ahead(ahead(failing())):
            seen.append(item)
    assert seen == list(range(10))


def test_never_more_than_so_many_are_made_ahead():
    made = []

    def counted() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    for item in ahead(counted()):
        assert len(made) <= item + DEPTH + 2


def test_whoever_stops_ends_the_making():
    ended = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    before = threading.active_count()
    with contextlib.closing(ahead(ahead(endless()))) as items:
        assert next(items) == 1
    assert ended.is_set() and threading.active_count() == before


def test_buffers_stay_good_for_as_long_as_they_are_needed(tmp_path):
    data = bytes(range(256)) * (3 * CHUNK // 256) + b"the end"
    (tmp_path / "data").write_bytes(data)
    with (tmp_path / "data").open("rb", buffering=0) as source:
        held = list(chunks(source, good=4))
    assert b"".join(held) == data
    with (tmp_path / "data").open("rb", buffering=0) as source:
        assert b"".join(bytes(chunk) for chunk in ahead(chunks(source, good=DEPTH + 2))) == data
