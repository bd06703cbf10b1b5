"""Reads a very long log without taking every line apart.

What ends a run stands at its end: a server that still answers has not failed. So the lines are
counted and the starts of runs are found in one fast pass; then the beginning of the last run, its end
and samples of its acceptance are read. When the end alone does not hold the cause, more of it is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kit import proc
from kit.logs.reader import Reader
from kit.logs.reading import Splitter

# A log up to this size is read whole.
SMALL = 6 << 20
_BLOCK = 1 << 18
_TAIL = 1 << 20
_HEAD = 1 << 18
_BEFORE = 4096
_GROW = 8
_STARTS = 48
_SAMPLES = 96
_MARKS = (b"API server version", b"non-default args")
_ACCEPTANCE = b"SpecDecoding metrics:"


@dataclass(frozen=True, slots=True)
class Survey:
    """Newlines in each block of the file and the offsets where a run announces itself."""

    size: int
    newlines: list[int]
    starts: list[int]


def survey(path: Path) -> Survey:
    """Count the lines and find the starts of runs; both processors help."""
    size = path.stat().st_size
    blocks = -(-size // _BLOCK)
    parts = 2 if size > 64 << 20 else 1
    cuts = [blocks * part // parts for part in range(parts + 1)]
    answers = [json.loads(a) for a in proc.divided(lambda p: _count(path, cuts[p], cuts[p + 1]), parts)]
    starts = sorted({s for answer in answers for s in answer[1]})
    return Survey(size, [n for answer in answers for n in answer[0]], starts)


def _count(path: Path, first: int, last: int) -> bytes:
    """Newlines of the blocks from `first` to before `last`, and the offsets of run marks in them, as JSON."""
    buffer = bytearray(_BLOCK + 64)
    view = memoryview(buffer)
    newlines: list[int] = []
    starts: list[int] = []
    with path.open("rb", buffering=0) as handle:
        kept = 64 if first else 0  # the end of the block before, so that a mark across two blocks is seen
        handle.seek(first * _BLOCK - kept)
        handle.readinto(view[:kept])
        for block in range(first, last):
            got = handle.readinto(view[64 : 64 + _BLOCK]) or 0
            newlines.append(buffer.count(b"\n", 64, 64 + got))
            # every start prints a brace (its arguments, the model's tasks); serving lines have none, and one
            # byte is found many times faster than a word
            if buffer.find(b"{", 64, 64 + got) >= 0:
                base = block * _BLOCK - 64
                starts += [base + at for mark in _MARKS for at in _all(buffer, mark, 64 - kept, 64 + got)]
            view[:64] = bytes(view[got : got + 64])
            kept = 64
    return json.dumps([newlines, starts]).encode()


def _all(buffer: bytearray, mark: bytes, start: int, end: int) -> list[int]:
    found = []
    at = buffer.find(mark, start, end)
    while at >= 0:
        found.append(at)
        at = buffer.find(mark, at + 1, end)
    return found


def read(path: Path, settled: Callable[[Reader, int], bool]) -> Reader:
    """Read what matters of a long log. `settled(reader, line)` says whether the end, read from `line` on, suffices."""
    map_ = survey(path)
    tail = _TAIL
    with path.open("rb", buffering=0) as handle:
        while True:
            reader, first = _feed(handle.fileno(), map_, tail)
            if tail >= map_.size or settled(reader, first):
                return reader
            tail *= _GROW


def _spans(map_: Survey, tail: int) -> list[tuple[int, int]]:
    """Parts of the file to read through, in order and apart from one another."""
    wanted = [(0, _HEAD), *((s - _BEFORE, s + _HEAD) for s in map_.starts[-_STARTS:]), (map_.size - tail, map_.size)]
    spans: list[tuple[int, int]] = []
    for start, stop in sorted(wanted):
        start, stop = max(0, start), min(stop, map_.size)
        if spans and spans[-1][1] >= start:
            spans[-1] = (spans[-1][0], max(spans[-1][1], stop))
        else:
            spans.append((start, stop))
    return spans


def _samples(map_: Survey, spans: list[tuple[int, int]]) -> list[int]:
    """Where to look for a line about acceptance: evenly spread over what is not read of the last run."""
    begin, end = (map_.starts[-1] if map_.starts else 0), spans[-1][0]
    step = max(_BLOCK, (end - begin) // _SAMPLES)
    return [at for at in range(begin, end, step) if not any(start <= at < stop for start, stop in spans)]


def _feed(fd: int, map_: Survey, tail: int) -> tuple[Reader, int]:
    """Feed a new reader with the spans and samples; also the number of the first line of the last span."""
    reader, first = Reader(), 1
    spans = _spans(map_, tail)
    for start, stop in sorted([*spans, *((at, -1) for at in _samples(map_, spans))]):
        if stop < 0:
            _sample(fd, map_, start, reader)
            continue
        offset = _line_start(fd, start)
        first = _number(fd, map_, offset)
        if first > 1:
            reader.gap()
        splitter = Splitter(first - 1)
        while offset < stop and (chunk := os.pread(fd, min(_BLOCK, stop - offset), offset)):
            for number, text in splitter.feed(chunk):
                reader.feed(number, text)
            offset += len(chunk)
        if stop == map_.size:
            for number, text in splitter.finish():
                reader.feed(number, text)
    reader.finish()
    reader.run_count += max(0, len(_apart(map_.starts)) - _STARTS)
    reader.lines = sum(map_.newlines) + (os.pread(fd, 1, map_.size - 1) != b"\n")
    return reader, first


def _apart(starts: list[int]) -> list[int]:
    """One offset per run: a run announces itself twice within a few lines."""
    kept: list[int] = []
    for start in starts:
        if not kept or start - kept[-1] > _HEAD // 16:
            kept.append(start)
    return kept


def _sample(fd: int, map_: Survey, start: int, reader: Reader) -> None:
    """Feed the first whole line about acceptance after `start`, if one is near."""
    block = os.pread(fd, _BLOCK, start)
    at = block.find(_ACCEPTANCE)
    if at < 0:
        return
    begin, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
    if begin > 0 and end > 0:
        reader.gap()
        reader.feed(_number(fd, map_, start + begin), block[begin:end].decode("utf-8", "replace"))


def _line_start(fd: int, offset: int) -> int:
    """The first beginning of a line at or after `offset`; `offset` itself inside a line without an end nearby."""
    if offset == 0:
        return 0
    at = os.pread(fd, _BLOCK, offset - 1).find(b"\n")
    return offset + at if at >= 0 else offset


def _number(fd: int, map_: Survey, offset: int) -> int:
    """The number of the line that begins at `offset`."""
    block = offset // _BLOCK
    part = os.pread(fd, offset - block * _BLOCK, block * _BLOCK)
    return 1 + sum(map_.newlines[:block]) + part.count(b"\n")
