"""The store of inputs: files by the SHA-256 of their content, shared by every project of one KIT_HOME."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kit import files
from kit.errors import IntegrityError, MissingError
from kit.home import kit_home


@dataclass(frozen=True)
class Item:
    """An input by what it is: the name for people (and for pip), size in bytes (0: unknown), SHA-256 in hex."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Store:
    """Content below `root`: objects/ab/cdef...; a file is there whole and right, or not at all."""

    root: Path

    @classmethod
    def default(cls) -> Store:
        """The store of this KIT_HOME."""
        return cls(kit_home() / "store")

    def path(self, sha256: str) -> Path:
        """Where content with this hash lies, or would."""
        return self.root / "objects" / sha256[:2] / sha256[2:]

    def has(self, sha256: str) -> bool:
        return self.path(sha256).is_file()

    def missing(self, items: Iterable[Item]) -> list[Item]:
        """Those of `items` that are not here, each once."""
        return list({i.sha256: i for i in items if not self.has(i.sha256)}.values())

    @contextlib.contextmanager
    def filling(self) -> Iterator[Path]:
        """Hold the store for adding or deleting; yields a scratch folder on its disk, removed at the end.

        A second kit waits here, and then finds what the first has fetched.
        """
        with files.locked(self.root / "lock", what="filling the store", wait=True):
            try:
                for old in self.root.glob("part-*"):  # of a kit that was killed
                    shutil.rmtree(old, ignore_errors=True)
                folder = Path(tempfile.mkdtemp(prefix="part-", dir=self.root))
            except OSError as error:
                raise files.no_write(self.root, error) from None
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def add(self, file: Path, item: Item) -> None:
        """Move `file` into the store, if it is what `item` says. Raises IntegrityError with both hashes if not."""
        found = files.sha256(file)
        if found != item.sha256:
            raise wrong_hash(item, found, "fetched")
        to = self.path(item.sha256)
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
            file.chmod(0o444)
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
            file.replace(to)
        except OSError as error:
            raise files.no_write(to, error) from None

    def stage(self, items: Iterable[Item], folder: Path) -> None:
        """Give `items` their names in `folder` (hard links where possible), each verified now.

        Raises MissingError for what is not here, IntegrityError for content that changed on disk;
        the damaged content is removed, so that the next fetch mends it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for item in items:
            source = self.path(item.sha256)
            if not source.is_file():
                raise MissingError(f"{item.name} is not in the store {self.root}", hint="kit fetch")
            found = files.sha256(source)
            if found != item.sha256:
                source.unlink()
                raise wrong_hash(item, found, "kept in the store")
            link_or_copy(source, folder / item.name)

    def contents(self) -> dict[str, int]:
        """SHA-256 -> size of everything here."""
        objects = self.root / "objects"
        return {p.parent.name + p.name: p.stat().st_size for p in objects.glob("??/*")} if objects.is_dir() else {}

    def collect(self, keep: Iterable[str]) -> tuple[int, int]:
        """Delete all but the hashes in `keep`; returns how many files and bytes went."""
        kept, count, freed = set(keep), 0, 0
        with self.filling():
            for sha256, size in self.contents().items():
                if sha256 not in kept:
                    self.path(sha256).unlink()
                    count, freed = count + 1, freed + size
        return count, freed


def wrong_hash(item: Item, found: str, what: str) -> IntegrityError:
    """The error for an input that is not what the lock says."""
    return IntegrityError(
        f"{item.name}, as {what}, is not the file that was locked",
        hint="kit fetch (again); if it stays: find out why that file changed before you run `kit lock --upgrade`",
        evidence=[f"sha256 locked: {item.sha256}", f"sha256 found:  {found}"],
    )


def link_or_copy(source: Path, to: Path) -> None:
    """Give a file a second name; a copy where the file system has no hard links or it is another one."""
    try:
        os.link(source, to)
    except OSError:
        try:
            shutil.copyfile(source, to)
        except OSError as error:
            raise files.no_write(to, error) from None
