"""The archive of a bundle in one file: what the kit did not write has no way in."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.bundle import names, sums, tar
from kit.bundle.stored import open_bundle
from kit.errors import IntegrityError

NAMES = st.lists(st.text("abc._-+~", min_size=1, max_size=150).map("x".__add__), min_size=1, max_size=4).map("/".join)


@given(NAMES, st.integers(0, 1 << 50), st.booleans())
def test_headers_come_back_and_tar_reads_them(name, size, executable):
    try:
        block = tar.header(name, size, executable=executable)
    except ValueError:
        assert len(name) > 511
        return
    assert len(block) == tar.header_size(block[:512])
    assert tar.read_header(block) == (name, size)
    with tarfile.open(fileobj=io.BytesIO(block + tar.END)) as archive:
        found = archive.next()
    assert (found.name, found.size, found.mode & 0o111 != 0) == (name, size, executable)


HOSTILE = {
    "absolute": {"name": "/etc/cron.d/x"},
    "traversal": {"name": "top/../../etc/x"},
    "dots": {"name": "top/a/.."},
    "no folder": {"name": "lonely"},
    "other folder": {"name": "elsewhere/x"},
    "symbolic link": {"name": "top/x", "type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
    "hard link": {"name": "top/x", "type": tarfile.LNKTYPE, "linkname": "top/a"},
    "device": {"name": "top/x", "type": tarfile.CHRTYPE},
    "pipe": {"name": "top/x", "type": tarfile.FIFOTYPE},
    "folder": {"name": "top/x", "type": tarfile.DIRTYPE},
    "set-uid": {"name": "top/x", "mode": 0o4755},
    "owner": {"name": "top/x", "uid": 1000},
    "user name": {"name": "top/x", "uname": "somebody"},
    "time": {"name": "top/x", "mtime": 1},
    "twice": {"name": "top/a"},
    "control character": {"name": "top/x\ny"},
    "option": {"name": "top/--checkpoint-action=exec=sh"},
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_hostile_entries(tmp_path: Path, case: str, format: int):
    buffer = io.BytesIO()
    buffer.write(tar.header("top/a", 0, executable=False))
    fields = {"mtime": tar.MTIME, "mode": 0o644, **HOSTILE[case]}
    entry = tarfile.TarInfo(fields.pop("name"))
    for key, value in fields.items():
        setattr(entry, key, value)
    buffer.write(entry.tobuf(format))
    buffer.write(tar.END)
    (tmp_path / "b.tar").write_bytes(buffer.getvalue())
    with pytest.raises(IntegrityError, match="not a bundle as the kit writes it"):
        open_bundle(tmp_path / "b.tar")
    assert list(tmp_path.iterdir()) == [tmp_path / "b.tar"]


def test_long_names_and_garbage(tmp_path: Path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("top/" + "x" * 300))
    good = tar.header("top/a", 3, executable=False) + b"abc" + bytes(509)
    for data in (
        buffer.getvalue(),
        b"",
        b"x" * 5000,
        good,  # no end
        good[:700],
        good + tar.END[:512],
        good + tar.END + b"more",
        good + tar.END + bytes(512),
        good[:-1] + b"x" + tar.END,  # bytes in the padding
        tar.header("top/a", 1 << 60, executable=False) + tar.END,
    ):
        (tmp_path / "b.tar").write_bytes(data)
        with pytest.raises(IntegrityError):
            open_bundle(tmp_path / "b.tar")
    (tmp_path / "b.tar").write_bytes(good + tar.END)
    assert open_bundle(tmp_path / "b.tar").read("a", 10) == b"abc"


@pytest.mark.parametrize(
    "name", ["", "/a", "../a", "a/../b", "a//b", "./a", "a/", "-x", "a b", "a\n", "a\\b", "ä", "a/-b", "x" * 201]
)
def test_names_that_may_not_be(name):
    assert names.fault(name)
    with pytest.raises(ValueError):
        sums.load(f"{'0' * 64}  {name}\n".encode())


@pytest.mark.parametrize(
    "text",
    [
        "0" * 64 + "  b\n" + "0" * 64 + "  a\n",
        "0" * 64 + "  a\n" + "0" * 64 + "  a\n",
        "0" * 64 + "  a\n" + "0" * 64 + "  A\n",
        "0" * 64 + "  a",
        "0" * 64 + " *a\n",
        "A" * 64 + "  a\n",
        "0" * 63 + "  a\n",
        "# note\n",
        "\n",
        "0" * 64 + "  SHA256SUMS\n",
        "\\" + "0" * 64 + "  a\n",
    ],
)
def test_sums_in_another_form(text):
    with pytest.raises(ValueError):
        sums.load(text.encode())


@given(st.dictionaries(st.from_regex(r"[a-z0-9_]{1,9}(/[a-z0-9.]{0,3}z)?", fullmatch=True), st.just("ab" * 32)))
def test_sums_come_back(table):
    table = {name: digest for name, digest in table.items() if not names.fault(name)}
    assert sums.load(sums.dump(table)) == table
