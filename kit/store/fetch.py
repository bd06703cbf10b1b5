"""Brings locked inputs into the store: wheels through this machine's pip, Debian packages through its apt."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kit import files, proc
from kit.engine.apt import Apt
from kit.errors import IntegrityError, MissingError
from kit.lock.debs import Deb
from kit.lock.indexes import EXTRA_INDEX, configured
from kit.lock.wheels import Wheel, platforms
from kit.store.store import Item, Store

Say = Callable[[str], None]


class ArchiveMovedOn(MissingError):
    """The Debian archive no longer has a version that was locked: it keeps the newest of a suite."""


_BATCH_BYTES = 96 << 20  # what an interruption may cost
_BATCH_FILES = 32


def wheel_item(wheel: Wheel) -> Item:
    return Item(wheel.file, wheel.size, wheel.sha256)


def deb_item(deb: Deb) -> Item:
    return Item(deb.file, deb.size, deb.sha256)


def fetch_wheels(store: Store, wheels: Sequence[Wheel], python: str, glibc: int, say: Say) -> int:
    """Fetch those of `wheels` that the store lacks; returns how many.

    What came before an interruption stays. Raises IntegrityError when an index serves other
    content than was locked, MissingError when a wheel or the network is out of reach.
    """
    if not store.missing(wheel_item(w) for w in wheels):
        return 0
    with store.filling() as scratch:
        lacking = {i.sha256 for i in store.missing(wheel_item(w) for w in wheels)}
        todo = [w for w in wheels if w.sha256 in lacking]
        total = sum(w.size for w in todo)
        files.need_space(store.root, int(total * 1.1) + (256 << 20), "fetching wheels")
        progress = _Progress(say, "wheels", len(todo), total)
        for number, batch in enumerate(_batches(todo)):
            folder = scratch / str(number)
            _pip_download(batch, folder, python, glibc)
            for wheel in batch:
                store.add(folder / wheel.file, wheel_item(wheel))
            progress.add(len(batch), sum(w.size for w in batch))
    return len(todo)


def fetch_debs(store: Store, debs: Sequence[Deb], apt: Callable[[], Apt], say: Say) -> int:
    """Fetch those of `debs` that the store lacks; returns how many. `apt` is asked only if needed.

    Raises like `fetch_wheels`, and ArchiveMovedOn when the archive has replaced a locked version.
    """
    if not store.missing(deb_item(d) for d in debs):
        return 0
    with store.filling() as scratch:
        lacking = {i.sha256 for i in store.missing(deb_item(d) for d in debs)}
        todo = [d for d in debs if d.sha256 in lacking]
        total = sum(d.size for d in todo)
        files.need_space(store.root, int(total * 1.1) + (256 << 20), "fetching Debian packages")
        progress = _Progress(say, "Debian packages", len(todo), total)
        archive = apt()
        try:
            archive.download([f"{d.name}={d.version}" for d in todo], scratch / "debs")
        except MissingError as error:
            gone = [line for line in error.evidence if re.search(r"Version '.*' for '.*' was not found", line)]
            if not gone:
                raise
            raise ArchiveMovedOn(
                "the Debian archive has replaced packages that were locked",
                hint="kit lock --upgrade debian, and review its diff; or kit fetch --from DIR, where they were kept",
                evidence=gone,
            ) from None
        for deb in todo:
            # apt writes an epoch's colon as %3a
            version = deb.version.replace(":", "%3a")
            store.add(scratch / "debs" / f"{deb.name}_{version}_{deb.arch}.deb", deb_item(deb))
        progress.add(len(todo), total)
    return len(todo)


def _batches(wheels: Sequence[Wheel]) -> list[list[Wheel]]:
    batches: list[list[Wheel]] = []
    size = _BATCH_BYTES
    for wheel in wheels:
        if size + wheel.size > _BATCH_BYTES or len(batches[-1]) == _BATCH_FILES:
            batches.append([])
            size = 0
        batches[-1].append(wheel)
        size += wheel.size
    return batches


def _pip_download(wheels: Sequence[Wheel], folder: Path, python: str, glibc: int) -> None:
    folder.mkdir(parents=True)
    listed = folder / "requirements.txt"
    listed.write_text("".join(f"{w.name}=={w.version} --hash=sha256:{w.sha256}\n" for w in wheels))
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar=off", f"--dest={folder}"]
    command += ["--implementation=cp", f"--python-version={python}", f"--abi=cp{python.replace('.', '')}"]
    command += ["--abi=abi3", "--abi=none", *(f"--platform={p}" for p in platforms(glibc)), "--platform=any"]
    done = proc.run([*command, *configured().pip_options(), f"--requirement={listed}"], check=False)
    if done.code != 0:
        raise _explain(done, wheels)


def _explain(done: proc.Done, wheels: Sequence[Wheel]) -> Exception:
    said = [line.strip() for line in (done.out + done.err).splitlines() if line.strip()]
    if wrong := re.search(r"Expected sha256 ([0-9a-f]{64})\s+Got\s+([0-9a-f]{64})", " ".join(said)):
        locked, found = wrong.groups()
        name = next((w.file for w in wheels if w.sha256 == locked), "a wheel")
        return IntegrityError(
            f"{name}, as the package index serves it, is not the file that was locked",
            hint="find out why that file changed before you run `kit lock --upgrade`",
            evidence=[f"sha256 locked: {locked}", f"sha256 found:  {found}"],
        )
    absent = re.search(r"No matching distribution found for (\S+)", " ".join(said))
    local = absent and "+" in absent[1]
    return MissingError(
        f"{absent[1]} is on none of the package indexes in reach" if absent else "wheels could not be fetched",
        hint=f"put the index that has it (for torch's +cpu builds: PyTorch's own CPU index) into {EXTRA_INDEX}"
        if local
        else "check the network and pip's settings (pip config list), then run this again: what came is kept",
        evidence=[line[:300] for line in said if not line.startswith(("Looking", "Collecting", "Using"))][-6:],
    )


@dataclass
class _Progress:
    """A line with count, bytes, rate and estimate, after every batch."""

    say: Say
    what: str
    count: int
    size: int
    began: float = field(default_factory=time.monotonic)
    done_count: int = 0
    done_size: int = 0

    def add(self, count: int, size: int) -> None:
        self.done_count += count
        self.done_size += size
        seconds = time.monotonic() - self.began
        rate = self.done_size / max(seconds, 1e-3)
        left = (self.size - self.done_size) / max(rate, 1)
        more = f", about {left:.0f} s left" if self.done_count < self.count else f" in {seconds:.0f} s"
        self.say(
            f"fetch: {self.what} {self.done_count}/{self.count}, {self.done_size / 1e6:.0f}/{self.size / 1e6:.0f} MB, "
            f"{rate / 1e6:.0f} MB/s{more}"
        )
