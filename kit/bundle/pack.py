"""`kit bundle pack` as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kit as package
from kit import files
from kit.bundle import handover, keys, locked, manifest, names, qualification
from kit.bundle.contents import gather, machine_rules, refuse_leaks
from kit.bundle.images import Canonical
from kit.bundle.manifest import Manifest, SiteValue
from kit.bundle.parts import Piece, sha256
from kit.bundle.write import Data, FileTarget, FolderTarget, Target, check_limit, write_bundle
from kit.config import Deployment
from kit.errors import UsageError
from kit.home import kit_home
from kit.sbom import sbom

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True)
class Options:
    """What a person chose. `limit` in bytes; `expires` a day, YYYY-MM-DD."""

    out: Path
    one_file: bool = False
    limit: int | None = None
    expires: str | None = None
    unqualified: bool = False
    pythons: Sequence[str] = ()
    allowed: Sequence[str] = ()
    sources: bool = False


@dataclass(frozen=True)
class Packed:
    """A bundle that was written: where, its release, how many files and bytes."""

    path: Path
    release: str
    files: int
    size: int
    signed_by: str | None

    def to_json(self) -> dict[str, Any]:
        """kit.bundle-pack/1."""
        return {"schema": "kit.bundle-pack/1", **self.__dict__, "path": str(self.path)}


@dataclass(frozen=True)
class Ready:
    """A bundle that can be written: everything in it was gathered and judged."""

    manifest: Manifest
    files: Mapping[str, Data]
    image: Canonical
    options: Options
    lock: Path

    @property
    def size(self) -> int:
        """Bytes that will be read to write it."""
        return self.image.size + sum(len(d) if isinstance(d, bytes) else d.stat().st_size for d in self.files.values())


def prepare(deployment: Deployment, image: Canonical, options: Options, say: Callable[[str], None]) -> Ready:
    """Gather and judge the contents of a deployment's bundle.

    Raises GateError for an image without a passed qualification or a lock that does not hold,
    IntegrityError for an image that is not the locked one, and what `gather` raises.
    """
    check_limit(options.limit)
    check_day(options.expires)
    shown = qualification.newest(deployment.state).cleaned(machine_rules(deployment))
    why_not = shown.why_not(image.reference)
    if not options.unqualified:
        qualification.demand(shown, image.reference)
    lock = locked.locked(deployment)
    locked.check_identity(lock, image.image)
    contents = gather(
        deployment,
        image.reference,
        shown,
        lock.files,
        pythons=options.pythons,
        kept=kit_home() / "made" / "kit-wheels",
        allowed=options.allowed,
        say=say,
    )
    say("bundle: listing the packages in the image")
    inside = {
        **contents.files,
        "sbom/image.cdx.json": sbom(image.image, image.reference, image.image.created, lock.hashes),
    }
    if options.sources:
        inside |= locked.sources(deployment)
    described = _describe(deployment, inside, contents.site, image, lock, options, qualified=why_not is None)
    page = {"HANDOVER.md": handover.document(described, deployment, shown, inside)}
    refuse_leaks(page, deployment, options.allowed)
    return Ready(described, {**inside, **page}, image, options, deployment.state / "bundle.lock")


def write(ready: Ready, signer: Ed25519PrivateKey | None, progress: Callable[[int], None]) -> Packed:
    """Write a bundle that was prepared; `progress` gets the bytes read. Raises MissingError when the disk is full."""
    release = ready.manifest.release
    target, path = _target(ready.options, release)
    with files.locked(ready.lock, what=f"packing {ready.manifest.name}"):
        sums = write_bundle(
            target, ready.files, ready.image, lambda: {names.MANIFEST: ready.manifest.to_bytes()}, signer, progress
        )
    signed_by = keys.fingerprint(keys.raw_public(signer)) if signer else None
    return Packed(path, release, len(sums), _written(path), signed_by)


def check_day(day: str | None) -> None:
    """Raise UsageError for a day that is not one."""
    from datetime import date

    try:
        if day is not None and date.fromisoformat(day).isoformat() != day:
            raise ValueError
    except ValueError:
        raise UsageError(f"--expires {day!r:.40} is not a day", hint="--expires 2027-12-31") from None


def _describe(
    deployment: Deployment,
    files: Mapping[str, Data],
    site: list[SiteValue],
    image: Canonical,
    lock: locked.Locked,
    options: Options,
    *,
    qualified: bool,
) -> Manifest:
    digests = {name: _digest(data) for name, data in files.items()}
    vllm, of_image = deployment.kit.engine.vllm, image.image
    return Manifest(
        name=deployment.name,
        release=manifest.release_name(deployment.name, vllm, of_image.config_digest, digests),
        kit=package.__version__,
        vllm=vllm,
        device=deployment.kit.engine.device,
        epoch=of_image.created,
        expires=options.expires,
        python=list(options.pythons),
        image=manifest.Image(
            reference=image.reference,
            config=of_image.config_digest,
            manifest=image.manifest_digest,
            layers=list(of_image.diff_ids),
            tree=lock.identity.tree,
            size=image.size,
        ),
        qualified=qualified,
        sources=options.sources,
        site=site,
    )


def _target(options: Options, release: str) -> tuple[Target, Path]:
    path = options.out / (f"{release}.tar" if options.one_file else release)
    if options.one_file:
        return FileTarget(path, release, options.limit), path
    return FolderTarget(path, options.limit), path


def _digest(data: Data) -> str:
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest()
    return sha256([Piece(data, 0, data.stat().st_size)])[0]


def _written(path: Path) -> int:
    found = [path, *path.rglob("*"), *path.parent.glob(f"{path.name}.[0-9][0-9][0-9]")]
    return sum(p.stat().st_size for p in found if p.is_file())
