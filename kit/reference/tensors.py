"""Tensors with the same bytes on every machine, and the safetensors file that holds them.

Nothing here depends on a library's random stream, on BLAS or on the C library's exp: noise comes from an integer
hash, everything else from literals, division and square root, which IEEE 754 rounds the same everywhere.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Floats = NDArray[np.float32]

DTYPE_NAMES = {"float32": "F32", "float16": "F16", "int64": "I64", "bool": "BOOL"}


def zeros(*shape: int) -> Floats:
    """A float32 tensor of zeros."""
    return np.zeros(shape, np.float32)


def ones(*shape: int) -> Floats:
    """A float32 tensor of ones."""
    return np.ones(shape, np.float32)


def noise(name: str, *shape: int, amplitude: float = 2**-5) -> NDArray[np.float16]:
    """Uniform noise in (-amplitude, amplitude), decided by `name` alone; `amplitude` is a power of two.

    Stored in float16, in which every value is exact: half the size, and a checkpoint of mixed types as real ones are.
    """
    seed = np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))
    with np.errstate(over="ignore"):  # splitmix64 counts modulo 2**64
        x = seed + np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    byte = (x >> np.uint64(56)).astype(np.float32)
    return ((byte - np.float32(127.5)) * np.float32(amplitude / 128)).astype(np.float16).reshape(shape)


def safetensors_bytes(tensors: Mapping[str, Array]) -> bytes:
    """A safetensors file: 8 bytes of header length, the header as JSON, then the data in the order of the names.

    Written by hand because the library's order and padding may change with its version, and with them the hash.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    offset = 0
    for name in sorted(tensors):
        array = tensors[name]
        data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        header[name] = {
            "dtype": DTYPE_NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        parts.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def sha256(data: bytes) -> str:
    """The SHA-256 of some bytes, in hex."""
    return hashlib.sha256(data).hexdigest()
