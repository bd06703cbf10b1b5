"""One file's header: accepted when whole, refused with its fault otherwise, and never trusted."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.model.safetensors import BadShard, parse_header, read_header
from tests.unit.model.synthetic import header, write_shard

TENSORS = {"a.weight": ("BF16", (2, 3)), "b.weight": ("F8_E4M3", (5,)), "d2t": ("I64", (4,))}


def fault_of(path):
    with pytest.raises(BadShard) as found:
        read_header(path)
    return found.value.fault, str(found.value)


def test_a_whole_file(tmp_path):
    size = write_shard(tmp_path / "x.safetensors", TENSORS)
    found = read_header(tmp_path / "x.safetensors")
    assert {name: (t.dtype, t.shape, t.nbytes) for name, t in found.tensors.items()} == {
        "a.weight": ("BF16", (2, 3), 12),
        "b.weight": ("F8_E4M3", (5,), 5),
        "d2t": ("I64", (4,), 32),
    }
    assert size == 49
    assert found.begins == {"d2t": found.file_bytes - 32}


def test_a_file_may_hold_no_tensor_and_an_empty_one(tmp_path):
    write_shard(tmp_path / "none.safetensors", {})
    assert read_header(tmp_path / "none.safetensors").tensors == {}
    write_shard(tmp_path / "empty.safetensors", {"a": ("F32", (0, 7)), "b": ("F32", ())})
    assert read_header(tmp_path / "empty.safetensors").tensors["b"].nbytes == 4


@pytest.mark.parametrize(
    ("change", "fault", "text"),
    [
        (lambda data: data[:-1], "truncated", "1 lost"),
        (lambda data: data[:40], "truncated", "ends within its header"),
        (lambda data: data[:5], "truncated", "not even the length"),
        (lambda data: b"", "truncated", "only 0 bytes"),
        (lambda data: data + b"x", "too-long", "1 bytes behind"),
        (lambda data: (100 * 10**9).to_bytes(8, "little") + data[8:], "header", "100,000,000,000 bytes"),
        (lambda data: b"\xff" * 8 + data[8:], "header", "no safetensors file"),
        (lambda data: (10**7).to_bytes(8, "little") + data[8:], "truncated", "ends within its header of 10,000,000"),
        (lambda data: (3).to_bytes(8, "little") + data[8:], "header", "not JSON"),
        (lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "lfs-pointer", "never"),
    ],
)
def test_a_damaged_file_is_named_for_what_it_is(tmp_path, change, fault, text):
    path = tmp_path / "x.safetensors"
    write_shard(path, TENSORS)
    path.write_bytes(change(path.read_bytes()))
    assert fault_of(path)[0] == fault
    assert text in fault_of(path)[1]


def entry(dtype="F32", shape=(1,), place=(0, 4)):
    return {"dtype": dtype, "shape": shape, "data_offsets": place}


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([], "not a JSON object"),
        ({"a": 3}, "tensor a"),
        ({"a": {"dtype": "F32", "shape": [1]}}, "has no data_offsets"),
        ({"a": entry(dtype="F31")}, "unknown type"),
        ({"a": entry(dtype=["F32"])}, "tensor a"),
        ({"a": entry(shape=[-1])}, "shape"),
        ({"a": entry(shape=["1"])}, "shape"),
        ({"a": entry(shape=[[1]])}, "tensor a"),
        ({"a": entry(shape=7)}, "tensor a"),
        ({"a": entry(place=[0, 8])}, "4 bytes by type and shape"),
        ({"a": entry(place=[-4, 0])}, "its place is"),
        ({"a": entry(place=["0", "4"])}, "its place is"),
        ({"a": entry(place=[0, 4, 8])}, "tensor a"),
        ({"a": entry(), "b": entry(place=[2, 6])}, "begins at 2"),
        ({"a": entry(), "b": entry(place=[6, 10])}, "begins at 6"),
        ({"a": entry(dtype="F4", shape=[3], place=[0, 1])}, "no whole number of bytes"),
    ],
)
def test_a_header_that_contradicts_itself(entries, text):
    with pytest.raises(BadShard, match=text) as found:
        parse_header(json.dumps(entries).encode(), 10**6)
    assert found.value.fault == "header"


@pytest.mark.parametrize("text", [b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b'{"a": ' + b"9" * 10_000 + b"}"])
def test_json_that_hurts_parsers(text):
    with pytest.raises(BadShard, match="not JSON"):
        parse_header(text, 10**6)


@given(st.binary(max_size=200), st.integers(min_value=0, max_value=300))
def test_no_bytes_at_all_escape_as_another_error(text, size):
    try:
        parse_header(text, size)
    except BadShard as bad:
        assert str(bad)


@given(st.data())
def test_one_changed_byte_is_accepted_or_refused_never_more(data):
    head, size = header(TENSORS)
    text = bytearray(head[8:])
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse_header(bytes(text), len(head) + size)
    except BadShard as bad:
        assert bad.fault in ("header", "truncated", "too-long")


def test_what_is_no_file(tmp_path):
    assert fault_of(tmp_path / "absent.safetensors")[0] == "missing"
    (tmp_path / "link.safetensors").symlink_to("gone")
    assert "link to a file that is not there" in fault_of(tmp_path / "link.safetensors")[1]
    (tmp_path / "loop.safetensors").symlink_to("loop.safetensors")
    assert fault_of(tmp_path / "loop.safetensors")[0] == "unreadable"
    (tmp_path / "folder.safetensors").mkdir()
    assert fault_of(tmp_path / "folder.safetensors")[0] == "not-a-file"
    os.mkfifo(tmp_path / "pipe.safetensors")
    assert fault_of(tmp_path / "pipe.safetensors")[0] == "not-a-file"
    write_shard(tmp_path / "real", TENSORS)
    (tmp_path / "good.safetensors").symlink_to("real")
    assert len(read_header(tmp_path / "good.safetensors").tensors) == 3
