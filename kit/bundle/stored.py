"""A bundle on disk, a folder or one file, whole or in parts: which files it holds and how to read them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from kit.bundle import names, tar
from kit.bundle.parts import Piece, Reader, window
from kit.errors import IntegrityError, MissingError, UsageError

MAX_FILES = 50_000
_HINT = "do not install it; get the bundle again"


@dataclass(frozen=True)
class Stored:
    """A bundle's files: name to the pieces of disk files that hold it. Nothing here was verified."""

    path: Path
    files: dict[str, list[Piece]]

    def open(self, name: str) -> Reader:
        """The bytes of one file; of all its parts where it was split. Raises IntegrityError when it is not there."""
        return Reader(self.pieces(name))

    def pieces(self, name: str) -> list[Piece]:
        """Where the bytes of `name` lie, parts joined. Raises IntegrityError when it is not there."""
        if name in self.files:
            return self.files[name]
        found = [piece for part in self.parts(name) for piece in self.files[part]]
        if not found:
            raise IntegrityError(f"the bundle has no {name}", hint=_HINT)
        return found

    def parts(self, name: str) -> list[str]:
        """The names of the parts that `name` was split into, in order, up to the first that is missing."""
        found: list[str] = []
        while (part := names.part(name, len(found))) in self.files:
            found.append(part)
        return found

    def size(self, name: str) -> int:
        return sum(piece.length for piece in self.pieces(name))

    def read(self, name: str, limit: int) -> bytes:
        """A small file's bytes. Raises IntegrityError when it is not there or larger than `limit`."""
        if self.size(name) > limit:
            raise IntegrityError(f"{name} is larger than {limit} bytes; a bundle's is not", hint=_HINT)
        with self.open(name) as source:
            return source.readall()


def open_bundle(path: Path) -> Stored:
    """Find a bundle's files. `path` is a folder, a .tar, or a .tar in parts (with or without .000).

    Raises MissingError for a path that is not there, IntegrityError for links, special files,
    names that may not be, or an archive that the kit did not write.
    """
    part = names.split_part(path.name)
    base = path.with_name(part[0]) if part else path
    first = base.with_name(names.part(base.name, 0))
    try:
        if not part and path.is_dir():
            return Stored(path, _walk(path))
        if path.is_file() and not part:
            return Stored(path, _index([Piece(path, 0, path.stat().st_size)]))
        if first.is_file():
            return Stored(base, _index(_found_parts(base)))
    except OSError as error:
        raise MissingError(f"cannot read the bundle: {error}", hint=f"ls -l {path}") from None
    raise MissingError(f"there is no bundle at {path}", hint="name the bundle's folder, or its .tar file")


def _found_parts(base: Path) -> list[Piece]:
    found: list[Piece] = []
    while (part := base.with_name(names.part(base.name, len(found)))).is_file():
        found.append(Piece(part, 0, part.stat().st_size))
    return found


def _walk(root: Path) -> dict[str, list[Piece]]:
    files: dict[str, list[Piece]] = {}
    faults: list[str] = []
    folders = [root]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = str(Path(entry.path).relative_to(root))
                info = entry.stat(follow_symlinks=False)
                why = names.fault(name)
                if why is None and stat.S_ISDIR(info.st_mode):
                    folders.append(Path(entry.path))
                elif why is None and stat.S_ISREG(info.st_mode):
                    files[name] = [Piece(Path(entry.path), 0, info.st_size)]
                else:
                    faults.append(f"{name!r:.200} {why or 'is a link or a special file'}")
                if len(files) + len(faults) + len(folders) > MAX_FILES:
                    raise UsageError(f"{root} holds more than {MAX_FILES} files: not a bundle", hint=_HINT)
    if faults:
        raise IntegrityError("the bundle holds what no bundle may hold", evidence=sorted(faults)[:20], hint=_HINT)
    return files


def _index(parts: list[Piece]) -> dict[str, list[Piece]]:
    """The files of an archive, by reading its headers only."""
    total, offset, root = sum(part.length for part in parts), 0, ""
    files: dict[str, list[Piece]] = {}
    while True:
        block = _read(parts, offset, tar.BLOCK)
        head = _read(parts, offset, tar.header_size(block))
        try:
            entry = tar.read_header(head)
        except ValueError as error:
            raise _damaged(f"at byte {offset}: {error}") from None
        if entry is None:
            break
        full, size = entry
        offset += len(head)
        top, _, name = full.partition("/")
        why = names.fault(name) if name else "is not in the bundle's folder"
        if why or (root and top != root) or name in files:
            raise _damaged(f"the entry {full!r:.200} {why or 'does not belong there'}")
        root = top
        if offset + size + tar.padding(size) > total or len(files) > MAX_FILES:
            raise _damaged(f"it ends in the middle of {name}: a part is missing or cut short")
        files[name] = window(parts, offset, size)
        offset += size
        with Reader(window(parts, offset, tar.padding(size))) as source:
            if any(source.readall()):
                raise _damaged(f"there are bytes between {name} and the next file")
        offset += tar.padding(size)
    with Reader(window(parts, offset, total)) as source:
        if total - offset != len(tar.END) or any(source.readall()):
            raise _damaged("there are bytes after its end")
    return files


def _read(parts: list[Piece], offset: int, length: int) -> bytes:
    with Reader(window(parts, offset, length)) as source:
        data = source.readall()
    if len(data) < length:
        raise _damaged("it ends in the middle: a part is missing or cut short")
    return data


def _damaged(why: str) -> IntegrityError:
    return IntegrityError("the archive is not a bundle as the kit writes it", evidence=[why], hint=_HINT)
