"""The archive of a bundle in one file: the plain subset of POSIX ustar that the kit writes, and nothing else; pure.

Every tar reads it. Read back, a header must be byte for byte the one that the kit would write for
that name and size, so links, devices, owners, times and extension records have no way in.
"""

from __future__ import annotations

BLOCK = 512
END = bytes(2 * BLOCK)
MTIME = 315532800  # 1980-01-01: the oldest time that every archiver and file system takes for real
_OCTAL_LIMIT = 1 << 33


def header(name: str, size: int, *, executable: bool) -> bytes:
    """The header of a regular file of `size` bytes. Raises ValueError for a name that does not fit."""
    front, rest = _split(name)
    # sizes from 8 GiB on do not fit the octal field: base 256, which GNU tar, bsdtar and busybox read
    length = f"{size:011o}\0".encode() if size < _OCTAL_LIMIT else b"\x80" + size.to_bytes(11, "big")
    fields = [
        rest.encode().ljust(100, b"\0"),
        b"0000755\0" if executable else b"0000644\0",
        b"0000000\0" * 2,  # owner and group: nobody of the packing machine
        length,
        f"{MTIME:011o}\0".encode(),
        b" " * 8,  # the checksum counts its own field as spaces
        b"0" + bytes(100),
        b"ustar\00000" + bytes(64),
        b"0000000\0" * 2,
        front.encode().ljust(155, b"\0"),
        bytes(12),
    ]
    block = b"".join(fields)
    return block[:148] + f"{sum(block):06o}\0 ".encode() + block[156:]


def padding(size: int) -> int:
    """Zero bytes between the end of a file of `size` bytes and the next header."""
    return -size % BLOCK


def read_header(block: bytes) -> tuple[str, int] | None:
    """Name and size that a header block claims; None for the end of the archive.

    Raises ValueError for anything that `header` would not have written.
    """
    if block == bytes(BLOCK):
        return None
    try:
        front, rest = (block[start:end].rstrip(b"\0").decode("ascii") for start, end in ((345, 500), (0, 100)))
        field = block[124:136]
        size = int.from_bytes(field[1:], "big") if field[:1] == b"\x80" else int(field[:11].decode("ascii"), 8)
    except (UnicodeDecodeError, ValueError):
        raise ValueError("not an archive that the kit wrote") from None
    name = f"{front}/{rest}" if front else rest
    kind = _KINDS.get(block[156:157])
    if kind is not None:
        raise ValueError(f"{name!r} is {kind}; a bundle holds plain files only")
    for executable in (False, True):
        try:
            if block == header(name, size, executable=executable):
                return name, size
        except (ValueError, OverflowError):
            break
    raise ValueError(f"the header of {name!r} is not one that the kit writes")


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


def _split(name: str) -> tuple[str, str]:
    """ustar's prefix and name; the prefix as short as will do."""
    if len(name) <= 100:
        return "", name
    cut = name.find("/", len(name) - 101)
    if cut < 0 or cut > 155:
        raise ValueError(f"{name!r} is too long for an archive")
    return name[:cut], name[cut + 1 :]
