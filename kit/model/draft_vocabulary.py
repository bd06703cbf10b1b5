"""The maps of a reduced draft vocabulary: d2t (draft token -> offset to the target's) and t2d (which tokens it has)."""

from __future__ import annotations

import array
import sys
from collections.abc import Mapping

from kit.model.findings import Finding
from kit.model.safetensors import Tensor

AGAIN = "fetch the drafter's weights again: d2t belongs to them"
INTEGERS = {"I64": "q", "I32": "i", "I16": "h", "U64": "Q", "U32": "I", "U16": "H"}  # type -> code of `array`


def judge_draft_vocabulary(
    draft: int, full: int, tensors: Mapping[str, Tensor], data: Mapping[str, bytes]
) -> list[Finding]:
    """What is wrong with the maps between `draft` tokens and a target's vocabulary of `full`.

    `data` holds the values of d2t and t2d as stored, where they could be read.
    """
    d2t = tensors.get("d2t")
    if d2t is None:
        found = f"a draft vocabulary of {draft} of {full} tokens without d2t: every guess would name a wrong token"
        return [_fail(found, f"a tensor d2t of {draft} numbers")]
    if d2t.shape != (draft,) or d2t.dtype not in INTEGERS:
        return [_fail(f"d2t is {d2t.dtype} {list(d2t.shape)}", f"whole numbers, [{draft}]")]
    offsets = _integers(data.get("d2t", b""), d2t.dtype)
    if len(offsets) != draft:  # its file is cut off, which is reported of the file
        return []
    tokens = [token + offset for token, offset in enumerate(offsets)]
    outside = [token for token in tokens if not 0 <= token < full]
    if outside:
        found = f"d2t names {len(outside)} tokens outside the target's vocabulary, such as {outside[0]}"
        return [_fail(found, f"offsets that lead to tokens 0 to {full - 1}")]
    if len(set(tokens)) < draft:
        found = f"d2t names only {len(set(tokens))} different tokens for {draft} draft tokens"
        return [_fail(found, "a token of its own for each: target token = draft token + d2t")]
    return _t2d(set(tokens), full, tensors.get("t2d"), data.get("t2d", b""))


def _t2d(tokens: set[int], full: int, t2d: Tensor | None, marks: bytes) -> list[Finding]:
    if t2d is None or t2d.dtype != "BOOL" or len(marks) != full:
        return []
    marked = {token for token, mark in enumerate(marks) if mark}
    if marked == tokens:
        return []
    return [
        Finding(
            "drafter-t2d",
            "warn",
            f"t2d marks {len(marked)} tokens, and {len(tokens - marked)} of those that d2t names are not among them",
            "the same tokens in both",
            "vLLM reads d2t alone, but one of the two is from another drafter: fetch the weights again",
        )
    ]


def _integers(data: bytes, dtype: str) -> list[int]:
    values = array.array(INTEGERS[dtype])
    values.frombytes(data[: len(data) // values.itemsize * values.itemsize])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def _fail(found: str, want: str) -> Finding:
    return Finding("drafter-d2t", "fail", found, want, AGAIN)
