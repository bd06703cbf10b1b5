"""The kit itself for the bundle: its own wheel, and every wheel it needs, by the hashes of requirements.lock."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker

import kit
from kit import files, proc
from kit.bundle import tar
from kit.errors import IntegrityError, MissingError, UsageError

PYTHONS = ("3.11", "3.12", "3.13")  # Debian 12, Ubuntu 24.04, Debian 13
MACHINE = "x86_64"
_ENTRY = re.compile(r"(?m)^(\S+)==(\S+?)(?: ; (.+?))? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)")


@dataclass(frozen=True)
class Requirement:
    """One entry of requirements.lock: a version, when it applies, and the hashes that its files may have."""

    name: str
    version: str
    marker: str
    hashes: frozenset[str]

    def applies(self, python: str) -> bool:
        """Whether Linux with CPython `python` ("3.12") needs it."""
        if not self.marker:
            return True
        where = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
        return Marker(self.marker).evaluate({**where, "platform_machine": MACHINE})


def read_lock(text: str) -> list[Requirement]:
    """The entries of a requirements.lock. Raises UsageError when it is not one."""
    found = [
        Requirement(name, version, marker or "", frozenset(re.findall(r"[0-9a-f]{64}", hashes)))
        for name, version, marker, hashes in _ENTRY.findall(text)
    ]
    if not found:
        raise UsageError("requirements.lock holds no hashed requirement", hint="make lock-kit")
    return found


def needed(lock: Sequence[Requirement], python: str) -> str:
    """The requirements of one Python version as pip reads them with --require-hashes."""
    return "".join(
        f"{r.name}=={r.version} " + " ".join(f"--hash=sha256:{h}" for h in sorted(r.hashes)) + "\n"
        for r in sorted(lock, key=lambda r: (r.name, r.version))
        if r.applies(python)
    )


def project() -> Path:
    """The folder of the kit's source. Raises MissingError in an installed kit, which has none."""
    folder = Path(kit.__file__).resolve().parent.parent
    if not (folder / "pyproject.toml").is_file() or not (folder / "requirements.lock").is_file():
        raise MissingError("a bundle is packed from the kit's source folder", hint="run kit from a checkout of it")
    return folder


def collect(pythons: Sequence[str], kept: Path, say: Callable[[str], None]) -> dict[str, bytes | Path]:
    """What goes below kit/ in the bundle: wheels, a requirements file for each Python, the kit's own wheel.

    Wheels are downloaded once into `kept` and checked by hash each time. Raises MissingError
    without network, IntegrityError when a file is not the one that was locked.
    """
    lock = read_lock((project() / "requirements.lock").read_text())
    found: dict[str, bytes | Path] = {}
    for python in pythons:
        text = needed(lock, python)
        found[f"kit/requirements-{python}.txt"] = text.encode()
        for wheel in _wheels(text, python, kept / python, say):
            found[f"kit/wheels/{wheel.name}"] = wheel
    with tempfile.TemporaryDirectory(prefix="kit-wheel-") as name:
        own = build(Path(name))
        found[f"kit/{own.name}"] = own.read_bytes()
    return found


def build(folder: Path) -> Path:
    """The kit's own wheel, made in `folder`: the same bytes for the same source."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    proc.run(command, cwd=project(), env={"SOURCE_DATE_EPOCH": str(tar.MTIME)}, hint="make .venv/.ready")
    (wheel,) = folder.glob("*.whl")
    return wheel


def _wheels(text: str, python: str, folder: Path, say: Callable[[str], None]) -> list[Path]:
    """The wheels of a requirements text, downloaded when they are not all there."""
    listed = folder / "requirements.txt"
    if not listed.is_file() or listed.read_text() != text:
        say(f"bundle: fetching the kit's own wheels for Python {python}")
        shutil.rmtree(folder, ignore_errors=True)
        _download(text, python, folder)
        files.write(listed, text)  # last: a folder without it is not complete
    wheels = sorted(folder.glob("*.whl"))
    for wheel in wheels:
        if (digest := files.sha256(wheel)) not in text:
            shutil.rmtree(folder, ignore_errors=True)
            raise IntegrityError(
                f"{wheel.name} is not a file that requirements.lock names",
                evidence=[f"sha256 found: {digest}"],
                hint="run this again: it is fetched anew",
            )
    return wheels


def _download(text: str, python: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
        (folder / "wanted.txt").write_text(text)
    except OSError as error:
        raise files.no_write(folder, error) from None
    digits = python.replace(".", "")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar=off", f"--dest={folder}"]
    command += ["--implementation=cp", f"--python-version={python}", f"--abi=cp{digits}", "--abi=abi3", "--abi=none"]
    # the oldest C library of the systems whose Python is served, and all before it
    command += [f"--platform=manylinux_2_{minor}_{MACHINE}" for minor in range(36, 4, -1)]
    command += [f"--platform=manylinux2014_{MACHINE}", f"--requirement={folder / 'wanted.txt'}"]
    done = proc.run(command, check=False)
    if done.code != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise MissingError(
            f"the kit's own wheels for Python {python} could not be fetched",
            evidence=[line.strip()[:300] for line in done.err.splitlines() if line.strip()][-5:],
            hint="check the network and pip's settings (pip config list); or --python for those you need",
        )
