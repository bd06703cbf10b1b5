"""The archive of a bundle in one file: a plain subset of tar, as the kit writes it, and nothing else; pure.

Every tar reads it: ustar headers of regular files; before a name of more than 100 characters GNU's
long-name record. Read back, a header must be byte for byte the one that the kit would write for
that name and size, so links, devices, owners, times and other records have no way in.
"""

from __future__ import annotations

BLOCK = 512
END = bytes(2 * BLOCK)
MTIME = 315532800  # 1980-01-01: the oldest time that every archiver and file system takes for real
_OCTAL_LIMIT = 1 << 33
_SHORT = 100
_LONG_NAME = "././@LongLink"


def header(name: str, size: int, *, executable: bool) -> bytes:
    """The header of a regular file of `size` bytes: one block, or three where the name is long.

    Raises ValueError for a name of more than 511 characters.
    """
    if len(name) <= _SHORT:
        return _block(name, size, b"0", b"0000755\0" if executable else b"0000644\0", MTIME)
    if len(name) >= BLOCK:
        raise ValueError(f"{name!r} is too long for an archive")
    record = _block(_LONG_NAME, len(name) + 1, b"L", b"0000000\0", 0) + name.encode().ljust(BLOCK, b"\0")
    return record + header(name[:_SHORT], size, executable=executable)


def header_size(first: bytes) -> int:
    """How many bytes the header has whose first block this is."""
    return 3 * BLOCK if first[156:157] == b"L" else BLOCK


def padding(size: int) -> int:
    """Zero bytes between the end of a file of `size` bytes and the next header."""
    return -size % BLOCK


def read_header(data: bytes) -> tuple[str, int] | None:
    """Name and size that a whole header claims; None for the end of the archive.

    Raises ValueError for anything that `header` would not have written.
    """
    if data == bytes(BLOCK):
        return None
    last = data[-BLOCK:]
    try:
        name = (data[BLOCK : 2 * BLOCK] if len(data) > BLOCK else last[:_SHORT]).rstrip(b"\0").decode("ascii")
        field = last[124:136]
        size = int.from_bytes(field[1:], "big") if field[:1] == b"\x80" else int(field[:11].decode("ascii"), 8)
    except (UnicodeDecodeError, ValueError):
        raise ValueError("not an archive that the kit wrote") from None
    kind = _KINDS.get(last[156:157])
    if kind is not None:
        raise ValueError(f"{name!r} is {kind}; a bundle holds plain files only")
    for executable in (False, True):
        try:
            if data == header(name, size, executable=executable):
                return name, size
        except (ValueError, OverflowError):
            break
    raise ValueError(f"the header of {name!r} is not one that the kit writes")


def _block(name: str, size: int, kind: bytes, mode: bytes, mtime: int) -> bytes:
    # sizes from 8 GiB on do not fit the octal field: base 256, which GNU tar, bsdtar and busybox read
    length = f"{size:011o}\0".encode() if size < _OCTAL_LIMIT else b"\x80" + size.to_bytes(11, "big")
    fields = [
        name.encode().ljust(_SHORT, b"\0"),
        mode,
        b"0000000\0" * 2,  # owner and group: nobody of the packing machine
        length,
        f"{mtime:011o}\0".encode(),
        b" " * 8,  # the checksum counts its own field as spaces
        kind + bytes(100),
        b"ustar\00000" + bytes(64),
        b"0000000\0" * 2,
        bytes(155 + 12),
    ]
    block = b"".join(fields)
    return block[:148] + f"{sum(block):06o}\0 ".encode() + block[156:]


_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"5": "a folder entry",
    b"6": "a named pipe",
    b"x": "an extension record",
    b"g": "an extension record",
    b"L": "a long-name record",
    b"K": "a long-link record",
    b"S": "a sparse file",
}
