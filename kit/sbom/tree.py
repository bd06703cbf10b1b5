"""The files of an image that tell which packages it holds, read from its layers; nothing is run or unpacked."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from kit.bundle.images import ImageArchive
from kit.errors import IntegrityError

DPKG = "var/lib/dpkg/"
DOC = "usr/share/doc/"
PATCHES = "opt/kit/patches.json"
MAX_BYTES = 64 << 20  # the largest file that is read whole
_WANTED = re.compile(
    rf"{DPKG}(status|status\.d/[^/]+|info/[^/]+\.md5sums)|{DOC}[^/]+/copyright|{PATCHES}|etc/os-release|usr/lib/os-release"
    r"|(.+/)?[^/]+\.(dist-info/(METADATA|RECORD|(licenses/)?(LICEN[CS]E|COPYING)[^/]*)|egg-info/PKG-INFO|egg-info)"
)
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"


@dataclass(frozen=True)
class Tree:
    """The files that matter, path to content, and symbolic links among them, path to target."""

    files: Mapping[str, bytes]
    links: Mapping[str, str]

    def get(self, path: str) -> bytes | None:
        """A file's content; its folder may be one link away (usr/share/doc/libx -> usr/share/doc/x)."""
        if path in self.files:
            return self.files[path]
        parts = PurePosixPath(path)
        for name in (parts, parts.parent):
            if (target := self.links.get(str(name))) is not None:
                moved = _join(str(name.parent), target) + path.removeprefix(str(name))
                return self.files.get(moved)
        return None


def read(image: ImageArchive, progress: Callable[[int], None] = lambda count: None) -> Tree:
    """The tree of an image, upper layers over lower ones, deletions followed. Raises IntegrityError."""
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for number, blob in enumerate(image.blobs):
        try:
            new_files, new_links, gone, emptied = _layer(image, number)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise IntegrityError(
                f"layer {number} of {image.path} cannot be read: {error}", hint="kit image build"
            ) from None
        for known in (files, links):
            for path in [p for p in known if _deleted(p, gone, emptied)]:
                del known[path]
        for path in new_files:
            links.pop(path, None)
        for path in new_links:
            files.pop(path, None)
        files |= new_files
        links |= new_links
        progress(blob.length)
    return Tree(files, links)


def _layer(image: ImageArchive, number: int) -> tuple[dict[str, bytes], dict[str, str], set[str], set[str]]:
    """One layer's files and links that matter, the paths it deletes, and the folders whose old content it hides."""
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    gone: set[str] = set()
    emptied: set[str] = set()
    for archive, member in _members(image, number):
        path = member.name.removeprefix("./").strip("/")
        folder, _, name = path.rpartition("/")
        if name == _OPAQUE:
            emptied.add(folder)
        elif name.startswith(_WHITEOUT):
            gone.add(_join(folder, name.removeprefix(_WHITEOUT)))
        elif member.issym() and (path.startswith(DOC) or path == "etc/os-release"):
            links[path] = member.linkname
        elif _WANTED.fullmatch(path) and (member.isreg() or member.islnk()):
            if member.size > MAX_BYTES:
                raise tarfile.TarError(f"{path} is larger than {MAX_BYTES} bytes")
            handle = archive.extractfile(member) if member.isreg() else None
            # a hard link's content is that of a file that came before it in this layer
            files[path] = handle.read() if handle else files.get(member.linkname.removeprefix("./").strip("/"), b"")
    return files, links, gone, emptied


def _members(image: ImageArchive, number: int) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The entries of a layer; where it lies uncompressed, the content of files is skipped, not read."""
    blob = image.blobs[number]
    if image.is_plain(number):
        with blob.path.open("rb") as handle:
            handle.seek(blob.offset)
            with tarfile.open(fileobj=handle, mode="r:") as archive:
                yield from _walk(archive)
    else:
        with image.layer(number) as source, tarfile.open(fileobj=source, mode="r|") as archive:
            yield from _walk(archive)


def _walk(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    for member in archive:
        yield archive, member
        archive.members.clear()  # type: ignore[attr-defined]  # it keeps every entry: 60,000 in a vLLM image


def _deleted(path: str, gone: set[str], emptied: set[str]) -> bool:
    parents = [str(p) for p in PurePosixPath(path).parents]
    return path in gone or any(p in gone or p in emptied for p in parents)


def _join(folder: str, name: str) -> str:
    """A path from a folder and a relative or absolute one, `..` resolved."""
    parts: list[str] = [] if name.startswith("/") else [p for p in folder.split("/") if p not in ("", ".")]
    for part in name.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
