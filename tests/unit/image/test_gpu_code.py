"""Which GPUs a compiled module has code for: read from a library that nvcc made, and from damaged copies of it."""

from __future__ import annotations

import lzma
import random
import re
import zipfile
from pathlib import Path

import pytest

from kit.errors import IntegrityError
from kit.image import gpu_code
from kit.image.gpu_code import Code, support

DATA = Path(__file__).parents[2] / "data" / "image"
ADD = ["compute_80", "sm_90", "sm_100f", "sm_120a", "sm_120f"]


@pytest.fixture(scope="module")
def library() -> bytes:
    return lzma.decompress((DATA / "libadd.so.xz").read_bytes())


def wheel(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def plain_library() -> bytes:
    """A shared library without device code: one of Python's own."""
    import _ctypes

    return Path(_ctypes.__file__).read_bytes()


def test_what_nvcc_put_in_is_read_out(library: bytes, tmp_path: Path) -> None:
    (tmp_path / "libadd.so").write_bytes(library)
    assert [str(code) for code in sorted(gpu_code.of_library(tmp_path / "libadd.so"))] == ADD


def test_a_library_without_device_code_has_none(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(plain_library())
    assert gpu_code.of_library(tmp_path / "x.so") == frozenset()


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01", b"#!/bin/sh\n" * 20, b"\x7fELF\x01\x01" + bytes(200)])
def test_what_is_no_library_is_said(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(content)
    with pytest.raises(ValueError, match=r"library|ends before"):
        gpu_code.of_library(tmp_path / "x.so")


def test_a_damaged_library_ends_in_an_answer_or_in_a_clear_error(library: bytes, tmp_path: Path) -> None:
    dice = random.Random(7)
    section = library.find((0xBA55ED50).to_bytes(4, "little"))
    for turn in range(300):
        damaged = bytearray(library[: dice.randrange(100, len(library))] if turn % 3 == 0 else library)
        for _ in range(dice.randrange(1, 4)):
            place = dice.choice([dice.randrange(len(damaged)), min(section + dice.randrange(64), len(damaged) - 1)])
            damaged[place] = dice.randrange(256)
        (tmp_path / "x.so").write_bytes(damaged)
        try:
            gpu_code.of_library(tmp_path / "x.so")
        except ValueError as error:
            assert str(error)


def test_a_wheel_tells_by_module_and_leaves_nothing(library: bytes, tmp_path: Path) -> None:
    members = {"vllm/_C.abi3.so": library, "vllm/fs/_x_C.abi3.so": library, "vllm/tools.so": plain_library()}
    packed = wheel(tmp_path / "vllm-1-py3-none-any.whl", {**members, "vllm/a.py": b""})
    (tmp_path / "scratch").mkdir()
    found = gpu_code.of_wheel(packed, re.compile(r"\.so$"), tmp_path / "scratch")
    assert {name: [str(code) for code in sorted(codes)] for name, codes in found.items()} == {"_C": ADD, "_x_C": ADD}
    assert list((tmp_path / "scratch").iterdir()) == []
    assert gpu_code.from_label(gpu_code.to_label(found)) == found


def test_a_wheel_that_is_none_and_one_for_processors(tmp_path: Path) -> None:
    staged = tmp_path / "wheels"
    staged.mkdir()
    (staged / "vllm-1.whl").write_bytes(b"PK")
    with pytest.raises(IntegrityError, match="cannot be read"):
        gpu_code.of_wheels([("vllm-1.whl", staged / "vllm-1.whl")])
    wheel(staged / "vllm-2.whl", {"vllm/_C.abi3.so": plain_library()})
    with pytest.raises(IntegrityError, match="no code for any GPU"):
        gpu_code.of_wheels([("vllm-2.whl", staged / "vllm-2.whl"), ("numpy-1.whl", staged / "none.whl")])


@pytest.mark.parametrize(
    ("held", "capability", "way"),
    [
        ("sm_120", (12, 0), "native"),
        ("sm_120", (12, 1), "native"),  # a later minor of the same major
        ("sm_80", (8, 6), "native"),
        ("sm_86", (8, 0), "none"),
        ("sm_80", (12, 0), "none"),
        ("compute_80 sm_80", (12, 0), "jit"),
        ("compute_120", (9, 0), "none"),
        ("sm_120a", (12, 0), "native"),
        ("sm_120a", (12, 1), "none"),
        ("compute_90a", (12, 0), "none"),
        ("sm_100f", (10, 3), "native"),
        ("sm_100f", (12, 0), "none"),
        ("sm_103f", (10, 0), "none"),
        ("", (12, 0), "none"),
    ],
)
def test_which_card_takes_what(held: str, capability: tuple[int, int], way: str) -> None:
    assert support([Code.parse(text) for text in held.split()], capability) == way


@pytest.mark.parametrize(
    "text", ["sm_", "gfx90", '["sm_80"]', "3", '{"_C": ["sm_80; rm"]}', '{"_C": 5}', '{"_C": [[]]}', "[" * 100_000]
)
def test_a_label_of_somebody_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        gpu_code.from_label(text)
