"""Every byte of a folder against a manifest of hashes: as fast as the disk, and going on where it was interrupted.

A manifest is JSON: {"schema": "kit.manifest/1", "files": {"name": {"bytes": N, "sha256": HEX}}}, names relative to the
folder, with slashes. Bundles use the same file.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kit import files
from kit.errors import IntegrityError, MissingError
from kit.parse import json_of

BLOCK = 4 << 20
THREADS = 8  # one reads and hashes about 1 to 2 GB/s; more than this helps no disk array in one machine

Progress = Callable[[int], None]  # called with the bytes just read, from any thread


class Entry(BaseModel):
    """Size and hash of one file."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """The files that a folder must hold."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)

    schema_: Literal["kit.manifest/1"] = Field("kit.manifest/1", alias="schema")
    files: dict[str, Entry]

    @property
    def total(self) -> int:
        """Bytes of all files."""
        return sum(entry.bytes for entry in self.files.values())

    def text(self) -> str:
        """As it is written to disk."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


@dataclass(frozen=True)
class Difference:
    """One file that is not as the manifest says: `kind` is missing, unreadable, size, hash, or extra."""

    name: str
    kind: Literal["missing", "unreadable", "size", "hash", "extra"]
    text: str


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file. MissingError where there is none, IntegrityError where it is none."""
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise MissingError(f"cannot read {path}: {error.strerror}", hint="kit model manifest makes one") from None
    except ValidationError as error:
        evidence = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3]]
        raise IntegrityError(f"{path} is no manifest", evidence=evidence, hint="fetch it again") from None
    outside = [name for name in manifest.files if not _inside(name)]
    if outside:
        raise IntegrityError(f"{path} names files outside the folder", evidence=outside[:3], hint="do not trust it")
    return manifest


def list_files(folder: Path) -> dict[str, int]:
    """The regular files below `folder` and their sizes; links count as what they lead to, hidden names do not count."""
    found: dict[str, int] = {}
    try:
        for root, folders, names in os.walk(folder, onerror=_raise):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                path = Path(root, name)
                if not name.startswith(".") and path.is_file():
                    found[path.relative_to(folder).as_posix()] = path.stat().st_size
    except OSError as error:
        raise MissingError(f"cannot read {folder}: {error.strerror}", hint=f"ls -ld {folder}") from None
    return found


def make_manifest(folder: Path, journal: Path, progress: Progress) -> Manifest:
    """Hash every file of a folder. `journal` keeps what is done, so that an interrupted run goes on; then it goes."""
    names = list_files(folder)
    hashes, unreadable = _hash_all(folder, names, journal, progress)
    if unreadable:
        texts = [f"{name}: {text}" for name, text in unreadable.items()]
        raise MissingError(f"{len(texts)} files cannot be read", evidence=texts[:5], hint=f"ls -l {folder}")
    entries = {name: Entry(bytes=size, sha256=hashes[name]) for name, size in names.items()}
    return Manifest(files=entries)


def verify(folder: Path, manifest: Manifest, journal: Path, progress: Progress) -> list[Difference]:
    """What differs between a folder and a manifest. Sizes first: a file of another size is not read at all."""
    there = list_files(folder)
    differences = [Difference(name, "extra", "not in the manifest") for name in there if name not in manifest.files]
    to_read: list[str] = []
    for name, entry in manifest.files.items():
        if name not in there:
            differences.append(Difference(name, "missing", "is not there"))
        elif there[name] != entry.bytes:
            text = f"{there[name]:,} bytes, not {entry.bytes:,}"
            differences.append(Difference(name, "size", text))
        else:
            to_read.append(name)
    hashes, unreadable = _hash_all(folder, to_read, journal, progress)
    differences += [Difference(name, "unreadable", text) for name, text in unreadable.items()]
    for name, found in hashes.items():
        if found != manifest.files[name].sha256:
            text = f"sha256 {found[:16]}..., not {manifest.files[name].sha256[:16]}..."
            differences.append(Difference(name, "hash", text))
    return sorted(differences, key=lambda difference: (difference.kind == "extra", difference.name))


def _hash_all(
    folder: Path, names: Iterable[str], journal: Path, progress: Progress
) -> tuple[dict[str, str], dict[str, str]]:
    """(hash, why not) by name; files whose hash the journal holds for just this size and time are not read again."""
    hashes: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    stop = threading.Event()

    def work(name: str) -> None:
        try:
            state = _state(folder / name)
            if name in done and done[name][:-1] == state:
                hashes[name] = str(done[name][-1])
                progress(state[0])
                return
            digest = _hash(folder / name, stop, progress)
        except OSError as error:
            unreadable[name] = error.strerror or str(error)
            return
        hashes[name] = digest
        notes.write(json.dumps([name, *state, digest]) + "\n")
        notes.flush()

    with files.locked(journal.with_suffix(".lock"), what=f"hashing {folder}"):
        done = _read_journal(journal)
        with journal.open("a") as notes, ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
            futures = [pool.submit(work, name) for name in names]
            try:
                for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                    future.result()
            except OSError as error:
                raise files.no_write(journal, error) from None
            finally:  # on Ctrl-C: the files that are done stay in the journal
                stop.set()
                pool.shutdown(cancel_futures=True)
        journal.unlink()
    return hashes, unreadable


def _hash(path: Path, stop: threading.Event, progress: Progress) -> str:
    digest = hashlib.sha256()
    block = bytearray(BLOCK)
    view = memoryview(block)
    with path.open("rb", buffering=0) as handle:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while count := handle.readinto(block):
            if stop.is_set():
                raise InterruptedError("stopped")
            digest.update(view[:count])
            progress(count)
    return digest.hexdigest()


def _state(path: Path) -> list[int]:
    info = path.stat()
    return [info.st_size, info.st_mtime_ns, info.st_ino]


def _read_journal(journal: Path) -> dict[str, list[int | str]]:
    done: dict[str, list[int | str]] = {}
    try:
        lines = journal.read_text().splitlines()
    except OSError:
        return done
    for line in lines:
        try:
            name, *rest = json_of(line)
            done[str(name)] = rest
        except ValueError:  # the line that was being written when the run ended
            continue
    return done


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\x00" not in name


def _raise(error: OSError) -> None:
    raise error
