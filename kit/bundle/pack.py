"""`kit bundle pack` as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kit as package
from kit import files
from kit.bundle import handover, keys, manifest, names, qualification
from kit.bundle.contents import Contents, gather
from kit.bundle.images import Canonical
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
    """What a person chose. `limit` in bytes; `expires` a day, YYYY-MM-DD; `locked` as in `kit.sbom.sbom`."""

    out: Path
    one_file: bool = False
    limit: int | None = None
    expires: str | None = None
    unqualified: bool = False
    pythons: Sequence[str] = ()
    allowed: Sequence[str] = ()
    locked: Mapping[tuple[str, str, str], str] = field(default_factory=dict)


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


def pack(
    deployment: Deployment,
    image: Canonical,
    epoch: int,
    signer: Ed25519PrivateKey | None,
    options: Options,
    say: Callable[[str], None],
    progress: Callable[[int], None],
) -> Packed:
    """Write the bundle of a deployment and its image. `epoch` is the image's SOURCE_DATE_EPOCH.

    Raises GateError for an image without a passed qualification, and what `gather` raises.
    """
    check_limit(options.limit)
    check_day(options.expires)
    with files.locked(deployment.state / "bundle.lock", what=f"packing {deployment.name}"):
        shown = qualification.newest(deployment.state)
        why_not = shown.why_not(image.reference)
        if not options.unqualified:
            qualification.demand(shown, image.reference)
        contents = gather(
            deployment,
            image.reference,
            shown,
            pythons=options.pythons,
            kept=kit_home() / "made" / "kit-wheels",
            epoch=epoch,
            allowed=options.allowed,
            say=say,
        )
        bill = sbom(image.image, image.reference, epoch, options.locked)
        contents.files["sbom/image.cdx.json"] = bill
        described = _describe(deployment, contents, image, epoch, options, qualified=why_not is None)
        handed = {"HANDOVER.md": handover.document(described, deployment, shown, contents.files)}
        target, path = _target(options, described.release)
        say(f"bundle: packing {described.release}")
        sums = write_bundle(
            target,
            contents.files | handed,
            image,
            lambda: {names.MANIFEST: described.to_bytes()},
            signer,
            progress,
        )
    signed_by = keys.fingerprint(keys.raw_public(signer)) if signer else None
    return Packed(path, described.release, len(sums), _written(path), signed_by)


def check_day(day: str | None) -> None:
    """Raise UsageError for a day that is not one."""
    from datetime import date

    try:
        if day is not None and date.fromisoformat(day).isoformat() != day:
            raise ValueError
    except ValueError:
        raise UsageError(f"--expires {day!r:.40} is not a day", hint="--expires 2027-12-31") from None


def _describe(
    deployment: Deployment, contents: Contents, image: Canonical, epoch: int, options: Options, *, qualified: bool
) -> manifest.Manifest:
    digests = {name: _digest(data) for name, data in contents.files.items()}
    vllm = deployment.kit.engine.vllm
    return manifest.Manifest(
        name=deployment.name,
        release=manifest.release_name(deployment.name, vllm, image.image.config_digest, digests),
        kit=package.__version__,
        vllm=vllm,
        device=deployment.kit.engine.device,
        epoch=epoch,
        expires=options.expires,
        python=list(options.pythons),
        image=manifest.Image(
            reference=image.reference,
            config=image.image.config_digest,
            manifest=image.manifest_digest,
            layers=list(image.image.diff_ids),
            size=image.size,
        ),
        qualified=qualified,
        sources=False,
        site=contents.site,
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
