"""Chooses versions: wheels with uv's resolver, Debian packages with apt's. Needs the network; writes nothing."""

from __future__ import annotations

import shutil
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kit import proc
from kit.engine.apt import Apt
from kit.errors import MissingError, UsageError
from kit.lock import debs, wheels
from kit.lock.debs import Deb
from kit.lock.indexes import EXTRA_INDEX, configured
from kit.lock.wheels import Wheel


def resolve_wheels(
    requirements: str,
    *,
    without: Sequence[str],
    instead: Sequence[str] = (),
    python: str,
    glibc: int,
    keep: Sequence[Wheel] = (),
    upgrade: Sequence[str] = (),
) -> list[Wheel]:
    """Every wheel that `requirements` (the text of a requirements.in) need, one for each package.

    `without` names packages that are left out although something asks for them, `instead` are requirements
    that take the place of what is asked for a package; versions in `keep`
    stay unless named in `upgrade` or impossible. Raises UsageError when the requirements cannot be
    met, MissingError without uv or network.
    """
    with tempfile.TemporaryDirectory(prefix="kit-lock-") as name:
        folder = Path(name)
        wanted, versions, lock = folder / "requirements.in", folder / "requirements.txt", folder / "pylock.toml"
        wanted.write_text(requirements)
        versions.write_text("".join(f"{w.name}=={w.version}\n" for w in keep))
        overrides = folder / "overrides.txt"
        # a marker that is never true: uv's way to leave a dependency out
        left_out = [f"{package} ; sys_platform == 'never'" for package in without]
        overrides.write_text("".join(f"{line}\n" for line in [*left_out, *instead]))
        options = [f"--python-version={python}", f"--python-platform=x86_64-manylinux_2_{glibc}"]
        options += [f"--override={overrides}", *(f"--upgrade-package={package}" for package in upgrade)]
        _uv(wanted, versions, options)
        _uv(versions, lock, [*options, "--no-deps", "--format=pylock.toml"])
        return wheels.from_pylock(_with_sizes(tomllib.loads(lock.read_text())), python, glibc)


def resolve_debs(apt: Apt, packages: Sequence[str]) -> list[Deb]:
    """The packages that make a system of Debian's essential packages and `packages`, without apt itself.

    `apt` must point at the suite and have its lists.
    """
    listed = apt.query("dumpavail")
    essential = sorted({d.name for d in debs.from_apt_show(_essential(listed))})
    if not essential:
        raise MissingError("apt has no package lists of the base system's suite", hint="check the apt sources")
    chosen = apt.closure([*essential, *packages])
    found = debs.from_apt_show(apt.query("show", *(f"{name}={version}" for name, version in sorted(chosen.items()))))
    by_name = {deb.name: deb for deb in found}
    if lost := sorted(set(chosen) - set(by_name)):
        raise MissingError("apt lists packages without a hash", evidence=lost)
    return sorted(by_name[name] for name in chosen)


def _essential(available: str) -> str:
    return "\n\n".join(s for s in available.split("\n\n") if "\nEssential: yes" in s)


def _uv(source: Path, to: Path, options: Sequence[str]) -> None:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise MissingError("uv is not installed: the resolver of `kit lock`", hint="pip install --group dev")
    fixed = ["--no-config", "--quiet", "--no-header", "--no-annotate", "--index-strategy=unsafe-best-match"]
    fixed += ["--native-tls", "--only-binary=:all:", *configured().uv_options(), *options]
    done = proc.run([uv, "pip", "compile", *fixed, "--output-file", to, source], check=False)
    if done.code != 0:
        said = [line for line in done.err.splitlines() if line.strip()]
        raise UsageError(
            f"the requirements {source.name} cannot be met from the package indexes in reach",
            hint=f"check the network; torch's +cpu and +cu builds have their own index: name it in {EXTRA_INDEX}",
            evidence=[line[:400] for line in said[:6]],
        )


def _with_sizes(document: dict[str, Any]) -> dict[str, Any]:
    """Fill in the size of wheels that lie in a folder of this machine, where uv leaves it out."""
    for package in document.get("packages", []):
        for wheel in package.get("wheels", []):
            address = urlsplit(wheel.get("url", ""))
            if "size" not in wheel and address.scheme == "file":
                wheel["size"] = Path(unquote(address.path)).stat().st_size
    return document
