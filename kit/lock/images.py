"""The lists under images/ (requirements.lock, debian.lock): when they must be made anew, and making them.

Each begins with a digest of what it was made from, so that `kit lock --check` needs no network.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit import files
from kit.errors import MissingError
from kit.image import recipes
from kit.lock import debs, wheels
from kit.lock.archive import debian
from kit.lock.debs import Deb
from kit.lock.resolve import resolve_debs, resolve_wheels
from kit.lock.wheels import Wheel

Say = Callable[[str], None]

ALL_DEBIAN = "debian"  # the name under which `--upgrade` moves all Debian packages: they fit only together
_MADE_FROM = re.compile(r"(?m)^# made from ([0-9a-f]{16})$")


@dataclass(frozen=True)
class WheelList:
    """The wheels of image `name` for vLLM `version`."""

    name: str
    version: str

    @property
    def path(self) -> Path:
        return recipes.wheels_lock(self.name, self.version)

    def made_from(self) -> str:
        """A digest of everything that decides which wheels are wanted."""
        spec = recipes.read_image(self.name)
        chosen = spec.versions[self.version]
        lines = _requirements(recipes.requirements_in(self.name, self.version))
        instead = [sorted(chosen.instead)] if chosen.instead else []
        return _digest([lines, sorted(chosen.without), spec.python, spec.glibc, *instead])

    def stale(self) -> bool:
        return _recorded(self.path) != self.made_from()

    def locked(self) -> list[Wheel]:
        return recipes.locked_wheels(self.name, self.version) if self.path.exists() else []

    def make(self, upgrade: Sequence[str], say: Say) -> None:
        """Choose anew, keeping versions that are not named in `upgrade`, and write the list."""
        spec = recipes.read_image(self.name)
        say(f"lock: resolving the wheels of images/{self.name} for vLLM {self.version}")
        made = resolve_wheels(
            recipes.requirements_in(self.name, self.version).read_text(),
            without=spec.versions[self.version].without,
            instead=spec.versions[self.version].instead,
            python=spec.python,
            glibc=spec.glibc,
            keep=self.locked(),
            upgrade=upgrade,
        )
        comment = [
            f"Every wheel of images/{self.name} for vLLM {self.version}.",
            "Written by `kit lock`; change requirements.in.",
            f"made from {self.made_from()}",
        ]
        files.write(self.path, wheels.dump(made, comment))


@dataclass(frozen=True)
class DebianList:
    """The Debian packages of base `name`."""

    name: str

    @property
    def path(self) -> Path:
        return recipes.debian_lock(self.name)

    def made_from(self) -> str:
        """A digest of everything that decides which packages are wanted."""
        spec = recipes.read_base(self.name)
        return _digest([spec.suite, sorted(spec.packages)])

    def stale(self) -> bool:
        return _recorded(self.path) != self.made_from()

    def locked(self) -> list[Deb]:
        return recipes.locked_debs(self.name) if self.path.exists() else []

    def make(self, say: Say) -> None:
        """Take the packages that the suite has now, and write the list."""
        spec = recipes.read_base(self.name)
        say(f"lock: resolving the Debian packages of images/{self.name} ({spec.suite})")
        with tempfile.TemporaryDirectory(prefix="kit-lock-") as folder:
            apt = debian(spec.suite, Path(folder), signed=True)
            made = resolve_debs(apt, spec.packages)
        comment = [
            f"Every Debian package of images/{self.name}: name, version, architecture, size, hash, place in archive.",
            "Written by `kit lock`; change image.yaml.",
            f"made from {self.made_from()}",
        ]
        files.write(self.path, debs.dump(made, comment))


def _requirements(path: Path) -> list[str]:
    try:
        lines = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist", hint=f"echo 'vllm==VERSION' > {path}; kit lock") from None
    return sorted(line for line in lines if line)


def _recorded(path: Path) -> str | None:
    found = _MADE_FROM.search(path.read_text()) if path.exists() else None
    return found[1] if found else None


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
