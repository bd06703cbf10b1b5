"""`kit bundle install`: from a bundle to a running, checked release."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from kit import files
from kit.bundle import names, parts
from kit.bundle.releases import Releases, kept
from kit.bundle.switch import Box, Say, check_image, doctor_or_raise, switch
from kit.bundle.verify import HINT, Verified
from kit.errors import IntegrityError

SPARE = 300 << 20  # the kit's own environment, and room to work
SHELL = Path(__file__).with_name("shell")


def install(verified: Verified, releases: Releases, box: Box, say: Say, *, stage_only: bool, now: datetime) -> None:
    """Put the release of a verified bundle in place, load its image, run the doctor, and switch to it.

    The service that runs is not touched before the release is wholly there and the doctor agrees.
    Run again after any interruption, it goes on. Raises IntegrityError, MissingError, and what
    `switch` raises.
    """
    release = verified.manifest.release
    with files.locked(releases.lock, what=f"an installation in {releases.root}"):
        releases.clear_staging()
        if releases.is_installed(release):
            mend(verified, releases, box, say)
        else:
            stage(verified, releases, box, say, now)
        if not box.has_image(verified.manifest.image):
            say(f"loading image {verified.manifest.image.reference}")
            box.load(verified)
            check_image(box, verified.manifest)
        write_tools(releases, verified.manifest.name)
        doctor_or_raise(box, release)
        if not stage_only:
            switch(releases, box, release, say, remember=True)


def stage(verified: Verified, releases: Releases, box: Box, say: Say, now: datetime) -> None:
    """Put the files of a verified bundle into the release's folder, all of them or none.

    Each file is hashed again as it is copied: what is installed is what was signed, also when the
    medium changed meanwhile.
    """
    release = verified.manifest.release
    wanted = [name for name in verified.sums if kept(name)]
    space = sum(verified.bundle.size(name) for name in wanted) + SPARE
    files.need_space(releases.root, space, f"installing {release}", f"df -h {releases.root}; or --to FOLDER")
    work, place = releases.staging(release), releases.folder(release)
    say(f"installing {release} into {place}")
    try:
        for name in wanted:
            copy(verified, name, work / name)
        for name in names.OUTSIDE_SUMS & verified.bundle.files.keys():
            (work / name).write_bytes(verified.bundle.read(name, 4 << 20))
        box.prepare(verified, work.name)
        _script(work / "kit", SHELL / "release-kit.sh")
        signer = verified.key.fingerprint if verified.key else None
        noted = {"schema": "kit.release/1", "release": release, "signed_by": signer}
        noted["installed"] = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        files.write(work / "installed.json", json.dumps(noted, indent=1) + "\n")
        os.sync()
        work.rename(place)
    except OSError as error:
        raise files.no_write(work, error) from None


def mend(verified: Verified, releases: Releases, box: Box, say: Say) -> None:
    """Put right the files of an installed release that were changed; its logs and results stay."""
    release = verified.manifest.release
    folder = releases.folder(release)
    try:
        for name in names.OUTSIDE_SUMS & verified.bundle.files.keys():
            files.write(folder / name, verified.bundle.read(name, 4 << 20))
        faults = releases.faults(release)
        for name, why in sorted(faults.items()):
            say(f"{name} was changed and is put right: {why}")
            beside = folder / f".{Path(name).name}.part"
            copy(verified, name, beside)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            beside.replace(folder / name)
        if not box.is_prepared(release):
            box.prepare(verified, release)
        _script(folder / "kit", SHELL / "release-kit.sh")
    except OSError as error:
        raise files.no_write(folder, error) from None
    if not faults:
        say(f"{release} is in place already")


def copy(verified: Verified, name: str, to: Path) -> None:
    """Copy one file out of a bundle. Raises IntegrityError when it is no longer the one that was verified."""
    digest = hashlib.sha256()
    to.parent.mkdir(parents=True, exist_ok=True)
    with verified.bundle.open(name) as source, to.open("wb") as handle:
        for chunk in parts.chunks(source):
            digest.update(chunk)
            handle.write(chunk)
    if digest.hexdigest() != verified.sums[name]:
        raise IntegrityError(f"{name} changed while it was being installed", hint=HINT)
    to.chmod(0o755 if names.executable(name) else 0o644)  # by the name in the bundle


def write_tools(releases: Releases, name: str) -> None:
    """The operator's `kit` command, systemd unit and, if there is none, site.env."""
    _script(releases.root / "kit", SHELL / "current-kit.sh")
    unit = (SHELL / "service.unit").read_text().replace("@NAME@", name)
    files.write(releases.root / f"kit-{name}.service", unit.replace("@FOLDER@", str(releases.root).replace("%", "%%")))
    if not (releases.root / "site.env").exists():
        files.write(releases.root / "site.env", (SHELL / "site.env").read_bytes(), 0o600)


def _script(path: Path, source: Path) -> None:
    files.write(path, source.read_bytes(), 0o755)
