"""Builds a base system with mmdebstrap from locked packages of the store: no network, same bytes each time."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from kit import files, proc
from kit.engine import apt
from kit.home import kit_home
from kit.image import tarball
from kit.image.recipe import Base
from kit.store.fetch import deb_item
from kit.store.store import Item, Store

Say = Callable[[str], None]

_SPACE = 1 << 30
_PATH_RULES = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/locale/*",
    "force-unsafe-io",
)


def base_tar(base: Base, store: Store, say: Say, *, again: bool = False) -> Path:
    """The base's root file system as a tar, kept from an earlier run or made now (`again`: in any case).

    The store must hold the packages. Raises MissingError without mmdebstrap or space.
    """
    kept = kit_home() / "made" / f"base-{base.digest}.tar"
    with files.locked(kept.parent / "base.lock", what=f"making base {base.name}", wait=True, on_wait=say):
        if again or not kept.is_file():
            files.need_space(kept.parent, _SPACE, f"making base {base.name}")
            say(f"base: making {base.name} from {len(base.debs)} Debian packages")
            with _scratch() as folder, files.replacing(kept) as handle:
                tarball.normalize(_bootstrap(base, store, folder), handle, base.epoch)
    return kept


def forget(keep: Collection[str]) -> int:
    """Delete kept bases but those with the digests in `keep`; returns the bytes that went."""
    freed = 0
    for kept in (kit_home() / "made").glob("base-*.tar"):
        if kept.stem.removeprefix("base-") not in keep:
            freed += kept.stat().st_size
            kept.unlink()
    return freed


def _bootstrap(base: Base, store: Store, folder: Path) -> Path:
    repository, customize, made = folder / "repository", folder / "customize.sh", folder / "base.tar"
    store.stage((deb_item(d) for d in base.debs), repository)
    (repository / "Packages").write_text(_index(repository, [deb_item(d) for d in base.debs]))
    customize.write_bytes(base.customize)
    tool, tool_env = apt.program("mmdebstrap", folder)
    merged_usr = tool.parent.parent / "share" / "mmdebstrap" / "hooks" / "merged-usr"
    command: list[str | Path] = [
        tool,
        "--variant=custom",
        "--format=tar",
        f"--include={','.join(d.name for d in base.debs)}",
    ]
    command += [f"--dpkgopt={rule}" for rule in _PATH_RULES]
    command += [f"--hook-dir={merged_usr}", f'--customize-hook=sh {customize} "$1"', "--quiet"]
    command += [base.suite, made, f"deb [trusted=yes] copy:{repository} ./"]
    env = {
        "SOURCE_DATE_EPOCH": str(base.epoch),
        "TMPDIR": str(folder),
        "PATH": f"{tool.parent}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
        "LC_ALL": "C.UTF-8",
        **tool_env,
    }
    proc.run(command, env=env, hint="run this again; if it stays, the lock and the suite do not fit: kit lock")
    return made


def _index(repository: Path, items: list[Item]) -> str:
    """A Packages file for the debs in `repository`: what each says of itself, where it lies, its locked hash."""
    stanzas = []
    for item in items:
        control = proc.run(["dpkg-deb", "--field", repository / item.name]).out.rstrip()
        stanzas.append(f"{control}\nFilename: ./{item.name}\nSize: {item.size}\nSHA256: {item.sha256}\n")
    return "\n".join(stanzas)


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder on the disk of KIT_HOME, so that packages are linked, not copied; gone afterwards."""
    parent = kit_home() / "made"
    for old in parent.glob("part-*"):  # of a kit that was killed
        shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="part-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
