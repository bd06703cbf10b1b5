"""The header of a safetensors file: read without the data, and refused as the safetensors library would refuse it.

The format (https://github.com/huggingface/safetensors): 8 bytes, little endian, length of the header; the header, a
JSON object name -> {dtype, shape, data_offsets}; then the data, without gaps, to the end of the file.
"""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

LENGTH_BYTES = 8
MAX_HEADER = 100_000_000  # the library's own limit
LOCATED = ("d2t", "t2d")  # small maps whose values are read: they decide whether a drafter can work
LFS_MARK = b"version https://git-lfs.github.com/spec/"

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
"""Bits of one element, by the format's names of types."""


class BadShard(Exception):
    """A file that is no whole safetensors file; `fault` is one of the slugs below, the text says what is wrong."""

    def __init__(self, fault: str, text: str):
        super().__init__(text)
        self.fault = fault


# The faults: what each means for whoever has to mend it.
FAULTS = {
    "missing": "the file is not there",
    "unreadable": "the file cannot be read",
    "not-a-file": "it is something other than a file",
    "lfs-pointer": "it is a Git LFS pointer: the weights themselves were never downloaded",
    "truncated": "the file ends too early: a download or copy was cut off",
    "too-long": "there are bytes behind the last tensor",
    "header": "the header is not valid",
}


class Tensor(NamedTuple):
    """Type, shape and bytes of one tensor. Equal ones are one object: a large model has 200,000 of a few kinds."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True)
class Header:
    """A whole header: tensors by name; where those named in LOCATED begin, in the file; bytes of the file."""

    tensors: Mapping[str, Tensor]
    begins: Mapping[str, int]
    file_bytes: int


def read_header(path: Path, kinds: dict[tuple[str, tuple[int, ...]], Tensor] | None = None) -> Header:
    """Read and judge one file's header; BadShard when it is not whole. `kinds` shares Tensor objects between files."""
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):  # a FIFO would wait for ever
            raise BadShard("not-a-file", f"{path.name} is not a file")
        with path.open("rb") as handle:
            head = handle.read(LENGTH_BYTES)
            length = header_length(head + handle.read(32 if info.st_size < 1024 else 0), info.st_size)
            handle.seek(LENGTH_BYTES)
            text = handle.read(length)
    except FileNotFoundError:
        what = "is a link to a file that is not there" if path.is_symlink() else "is not there"
        raise BadShard("missing", f"{path.name} {what}") from None
    except OSError as error:
        raise BadShard("unreadable", f"{path.name}: {error.strerror}") from None
    return parse_header(text, info.st_size, kinds)


def header_length(start: bytes, file_bytes: int) -> int:
    """The length of the header, from a file's first bytes; BadShard when there cannot be such a header."""
    if start.startswith(LFS_MARK):
        raise BadShard("lfs-pointer", FAULTS["lfs-pointer"])
    if file_bytes < LENGTH_BYTES:
        raise BadShard("truncated", f"only {file_bytes} bytes, not even the length of a header")
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if length > MAX_HEADER:
        raise BadShard("header", f"the header claims to be {length:,} bytes long: this is no safetensors file")
    if LENGTH_BYTES + length > file_bytes:
        raise BadShard("truncated", f"{file_bytes:,} bytes, ends within its header of {length:,}")
    return length


def parse_header(
    text: bytes, file_bytes: int, kinds: dict[tuple[str, tuple[int, ...]], Tensor] | None = None
) -> Header:
    """The header from its JSON and the size of the file; BadShard when they do not fit together."""
    kinds = {} if kinds is None else kinds
    entries = _entries(text)
    tensors: dict[str, Tensor] = {}
    begins: dict[str, int] = {}
    ends: list[tuple[int, int, str]] = []
    data = LENGTH_BYTES + len(text)
    for name, entry in entries.items():
        try:
            begin, end = entry["data_offsets"]
            key = (entry["dtype"], tuple(entry["shape"]))
            tensor = kinds.get(key) or kinds.setdefault(key, _tensor(*key))
            whole = type(begin) is int and type(end) is int and begin >= 0
        except (KeyError, TypeError, ValueError) as error:
            raise BadShard("header", f"tensor {name}: {_reason(error)}") from None
        if not whole or end - begin != tensor.nbytes:
            raise BadShard(
                "header", f"tensor {name}: {tensor.nbytes:,} bytes by type and shape, its place is [{begin}, {end}]"
            )
        tensors[name] = tensor
        if name in LOCATED:
            begins[name] = data + begin
        ends.append((begin, end, name))
    _no_gaps(ends, file_bytes - data)
    return Header(tensors, begins, file_bytes)


def _entries(text: bytes) -> dict[str, Any]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):  # not UTF-8, not JSON, or nested without end
        raise BadShard("header", "the header is not JSON") from None
    if not isinstance(entries, dict):
        raise BadShard("header", "the header is not a JSON object")
    entries.pop("__metadata__", None)
    return entries


def _tensor(dtype: str, shape: tuple[int, ...]) -> Tensor:
    if dtype not in BITS:
        raise ValueError(f"unknown type {str(dtype)[:40]!r}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"shape {str(shape)[:80]}")
    bits = math.prod(shape) * BITS[dtype]
    if bits % 8:
        raise ValueError(f"{dtype} {shape} is no whole number of bytes")
    return Tensor(dtype, shape, bits // 8)


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"has no {error.args[0]}" if isinstance(error.args[0], str) else "unknown type"
    return str(error)[:200]


def _no_gaps(places: list[tuple[int, int, str]], data_bytes: int) -> None:
    position = 0
    for begin, end, name in sorted(places):
        if begin != position:
            raise BadShard("header", f"tensor {name} begins at {begin:,}, the one before ends at {position:,}")
        position = end
    if position > data_bytes:
        raise BadShard(
            "truncated",
            f"{data_bytes:,} bytes of data, the header describes {position:,}: {position - data_bytes:,} lost",
        )
    if position < data_bytes:
        raise BadShard("too-long", f"{data_bytes - position:,} bytes behind the last tensor")
