"""The releases of one deployment on an operator's machine: a folder each, and one link that says which is current.

FOLDER/current -> releases/NAME   the only thing that a switch changes, in one step
FOLDER/releases/NAME/             deployment/, kit, venv/, bundle.json, SHA256SUMS, reports/, ...
FOLDER/pending.json               a switch that was begun and not ended
FOLDER/site.env                   values of this machine
FOLDER/kit                        the kit of the current release
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit import files
from kit.bundle import manifest, names, parts, sums
from kit.bundle.manifest import Manifest
from kit.bundle.parts import Piece
from kit.errors import IntegrityError, MissingError, UsageError
from kit.parse import json_of

_NAME = re.compile(r"[a-z0-9][A-Za-z0-9.+-]{0,99}")  # as kit.bundle.manifest has it
_ASIDE = ".removed"
NOT_KEPT = ("image/", "kit/", "sources/")  # what is needed once, to install


@dataclass(frozen=True)
class Pending:
    """A switch under way: to which release, and whether the current one's service ran when it began."""

    to: str
    was_up: bool


@dataclass(frozen=True)
class Releases:
    """The folder of one deployment's releases."""

    root: Path

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    def folder(self, release: str) -> Path:
        return self.root / "releases" / release

    def staging(self, release: str) -> Path:
        """Where a release is put together; it becomes `folder` by one rename."""
        return self.root / "releases" / f".{release}.part"

    def aside(self, release: str) -> Path:
        """Where a release waits for its end once it is being removed."""
        return self.root / "releases" / f".{release}{_ASIDE}"

    def is_put_aside(self, release: str) -> bool:
        return is_name(release) and not self.is_installed(release) and self.aside(release).is_dir()

    def put_aside(self, release: str) -> None:
        """Make a release none, in one step. Raises OSError."""
        shutil.rmtree(self.aside(release), ignore_errors=True)
        self.folder(release).rename(self.aside(release))

    def put_aside_before(self) -> list[str]:
        """The releases whose removal was begun and not ended."""
        found = (self.root / "releases").glob(f".*{_ASIDE}")
        return sorted(p.name.removeprefix(".").removesuffix(_ASIDE) for p in found)

    @property
    def current(self) -> str | None:
        """The current release; None before the first."""
        try:
            name = (self.root / "current").readlink().name
        except OSError:
            return None
        return name if self.is_installed(name) else None

    def is_installed(self, release: str) -> bool:
        return is_name(release) and (self.folder(release) / names.MANIFEST).is_file()

    def installed(self) -> list[str]:
        """All releases, those put there first at the front."""
        folder = self.root / "releases"
        found = [p for p in folder.iterdir() if not p.name.startswith(".")] if folder.is_dir() else []
        return [
            p.name
            for p in sorted(found, key=lambda p: (p.lstat().st_mtime_ns, p.name))
            if self.is_installed(p.name) and not p.is_symlink()
        ]

    def previous(self, release: str) -> str | None:
        """The release that this one took the place of, if that is still here."""
        try:
            name = (self.folder(release) / "previous").read_text().strip()
        except (OSError, ValueError):
            return None
        return name if self.is_installed(name) else None

    @property
    def pending(self) -> Pending | None:
        """The switch that was begun and not ended."""
        try:
            data = json_of((self.root / "pending.json").read_text())
            found = Pending(str(data["to"]), bool(data["was_up"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{self.root / 'pending.json'} cannot be read: {error}",
                hint=f"it only notes that a switch began: rm -r {self.root / 'pending.json'}; kit bundle list",
            ) from None
        return found if found.to != self.current else None  # ended, but for the note

    def begin(self, pending: Pending) -> None:
        """Note that a switch begins."""
        files.write(self.root / "pending.json", json.dumps(pending.__dict__) + "\n")

    def end(self) -> None:
        """Forget the note of a switch."""
        (self.root / "pending.json").unlink(missing_ok=True)

    def make_current(self, release: str, *, remember: bool) -> None:
        """Point `current` at a release, in one step; with `remember`, the one before becomes its previous one."""
        before = self.current
        try:
            if remember and before and before != release:
                files.write(self.folder(release) / "previous", before + "\n")
            link = self.root / ".current.part"
            link.unlink(missing_ok=True)
            link.symlink_to(Path("releases") / release)
            link.replace(self.root / "current")
        except OSError as error:
            raise files.no_write(self.root / "current", error) from None

    def clear_staging(self) -> None:
        """Remove what an interrupted installation left."""
        for stale in (self.root / "releases").glob(".*.part"):
            shutil.rmtree(stale, ignore_errors=True)

    def manifest(self, release: str) -> Manifest:
        """bundle.json of an installed release. Raises MissingError, IntegrityError."""
        if not self.is_installed(release):
            raise MissingError(
                f"release {release} is not installed here", hint=f"kit bundle list; there are: {self._names()}"
            )
        try:
            return manifest.load((self.folder(release) / names.MANIFEST).read_bytes())
        except IntegrityError as error:
            raise IntegrityError(
                f"release {release}: {error.message}",
                evidence=error.evidence,
                hint=f"{_MEND}; or use a newer kit; its folder is {self.folder(release)}",
            ) from None

    def faults(self, release: str) -> dict[str, str]:
        """The files of an installed release that are not those that were signed: name to what is wrong.

        Raises IntegrityError when the list of its files is itself gone or damaged.
        """
        folder = self.folder(release)
        try:
            wanted = sums.load((folder / names.SUMS).read_bytes())
        except (OSError, ValueError) as error:
            raise IntegrityError(f"release {release} has no list of its files: {error}", hint=_MEND) from None
        faults: dict[str, str] = {}
        for name in filter(kept, wanted):
            path = folder / name
            try:
                found, _ = parts.sha256([Piece(path, 0, path.stat(follow_symlinks=False).st_size)])
            except OSError as error:
                faults[name] = error.strerror or str(error)
                continue
            if found != wanted[name]:
                faults[name] = f"SHA-256 is {found}, signed was {wanted[name]}"
        return faults

    def check(self, release: str) -> None:
        """Raise IntegrityError when a file of an installed release is not the one that was signed."""
        if faults := self.faults(release):
            raise IntegrityError(
                f"release {release} was changed after it was installed",
                evidence=[f"{name}: {why}" for name, why in sorted(faults.items())][:20],
                hint=_MEND,
            )

    def facts(self, release: str) -> dict[str, Any]:
        """What was noted when the release was installed; empty when nothing was."""
        try:
            found = json_of((self.folder(release) / "installed.json").read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _names(self) -> str:
        return ", ".join(self.installed()) or "none"


_MEND = "sh install.sh KEY in its bundle puts it right; values of this machine belong into site.env"


def is_name(text: str) -> bool:
    """Whether `text` names a release: never a path to one, such as `./NAME` or `NAME/`."""
    return _NAME.fullmatch(text) is not None


def kept(name: str) -> bool:
    """Whether a file of a bundle stays on the machine after the installation."""
    return not name.startswith(NOT_KEPT)
