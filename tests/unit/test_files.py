"""Files appear whole or not at all."""

import os
from pathlib import Path

import pytest

from kit import files
from kit.errors import MissingError, UsageError


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_write_replaces_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    files.write(path, "one", 0o600)
    files.write(path, b"two", 0o644)
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o644
    assert names(path.parent) == ["file"]


def test_a_broken_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write(path, "old")
    with pytest.raises(KeyboardInterrupt), files.replacing(path) as handle:
        handle.write(b"new, but unfinished")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(MissingError, match="no space left") as caught, files.replacing(path):
        raise OSError(28, "No space left on device")
    assert "df -h" in str(caught.value.hint)
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((MissingError, NotADirectoryError)):
        files.write(tmp_path / "file" / "inner", "x")


def test_a_held_lock_is_said(tmp_path: Path) -> None:
    with files.locked(tmp_path / "lock", what="first"):
        second = files.locked(tmp_path / "lock", what="second")
        with pytest.raises(UsageError, match="another kit is at work here: second"), second:
            pass
    with files.locked(tmp_path / "lock", what="third"):
        pass


def test_too_little_space_is_said_before(tmp_path: Path) -> None:
    files.need_space(tmp_path / "not" / "made" / "yet", 1 << 10, "a test")
    with pytest.raises(
        MissingError, match=r"a test needs 1152921504\.6 GB on the disk of .*yet; .* are free"
    ) as caught:
        files.need_space(tmp_path / "not" / "made" / "yet", 1 << 60, "a test")
    assert caught.value.hint and "kit fetch --gc" in caught.value.hint


def test_a_file_is_read_up_to_a_limit_and_no_pipe_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert files.read(path, 5) == b"12345"
    with pytest.raises(ValueError, match="longer than 4 bytes"):
        files.read(path, 4)
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match=r"a folder|not a regular file"):
            files.read(other, 5)


def test_a_folder_in_the_place_of_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file" / "inside").mkdir(parents=True)
    with pytest.raises(MissingError, match=r"cannot write .*file"):
        files.write(tmp_path / "file", "new")
    assert names(tmp_path) == ["file"]


def test_no_file_takes_the_place_of_a_device_or_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(MissingError, match="no file, but a device or pipe"):
            files.write(tmp_path / name, "new")
    assert names(tmp_path) == ["link", "pipe"] and (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()
