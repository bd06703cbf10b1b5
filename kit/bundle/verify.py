"""Is this bundle what a trusted person signed, to the last bit? Needs no network and believes nothing inside.

The order is what makes it safe: the signature over SHA256SUMS with a key from outside, then the set
of files, then every hash; only then is bundle.json read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kit.bundle import keys, manifest, names, parts, sums
from kit.bundle.keys import TrustedKey
from kit.bundle.manifest import Manifest
from kit.bundle.stored import Stored
from kit.errors import IntegrityError

HINT = "do not install it; get the bundle again and compare: sha256sum -c SHA256SUMS"
_SHOWN = 20


@dataclass(frozen=True)
class Verified:
    """A bundle whose every byte is the one that was signed. `key` is None when only hashes were asked for."""

    bundle: Stored
    manifest: Manifest
    sums: Mapping[str, str]
    key: TrustedKey | None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.bundle.size(name) for name in self.bundle.files)

    def to_json(self) -> dict[str, Any]:
        """kit.bundle-verify/1."""
        return {
            "schema": "kit.bundle-verify/1",
            "verdict": "pass",
            "release": self.manifest.release,
            "signed_by": self.key.fingerprint if self.key else None,
            "expires": self.manifest.expires,
            "files": len(self.bundle.files),
            "bytes": self.size,
            "image": self.manifest.image.model_dump(),
        }


def verify(
    bundle: Stored,
    trusted: Sequence[TrustedKey] | None,
    *,
    now: datetime,
    progress: Callable[[int], None] = lambda count: None,
) -> Verified:
    """Check everything; `trusted` None checks the hashes only. `progress` gets the bytes read since the last call.

    Raises IntegrityError naming every file that is wrong, with both hashes.
    """
    listing = bundle.read(names.SUMS, sums.MAX_BYTES)
    key = _signer(bundle, listing, list(trusted), now) if trusted is not None else None
    try:
        wanted = sums.load(listing)
    except ValueError as error:
        raise IntegrityError(f"SHA256SUMS {error}", hint=HINT) from None
    faults = [f"missing: {name}" for name in sorted(wanted.keys() - bundle.files.keys())]
    faults += [
        f"not in SHA256SUMS: {name}" for name in sorted(bundle.files.keys() - wanted.keys() - names.OUTSIDE_SUMS)
    ]
    if faults:
        raise IntegrityError("the bundle does not hold the files that were signed", evidence=_some(faults), hint=HINT)
    for name, want in sorted(wanted.items()):
        found = _hash(bundle, name, progress)
        if found != want:
            faults.append(f"{name}: SHA-256 is {found}, signed was {want}")
    if faults:
        raise IntegrityError("files of the bundle are not those that were signed", evidence=_some(faults), hint=HINT)
    if names.MANIFEST not in wanted:
        raise IntegrityError(f"the bundle has no {names.MANIFEST}", hint=HINT)
    found_manifest = manifest.load(bundle.read(names.MANIFEST, manifest.MAX_BYTES))
    today = now.astimezone(UTC).strftime("%Y-%m-%d")
    if found_manifest.expires and today >= found_manifest.expires:
        raise IntegrityError(
            f"the bundle expired on {found_manifest.expires}; today is {today} (UTC)",
            hint="ask the sender for a newer one; a wrong clock? date -u",
        )
    return Verified(bundle, found_manifest, wanted, key)


def _signer(bundle: Stored, listing: bytes, trusted: list[TrustedKey], now: datetime) -> TrustedKey:
    if names.SIGNATURE not in bundle.files or names.SSH_SIGNATURE not in bundle.files:
        raise IntegrityError("the bundle is not signed", hint="ask the sender for a signed one")
    return keys.check(listing, bundle.read(names.SIGNATURE, 4096), bundle.read(names.SSH_SIGNATURE, 4096), trusted, now)


def _hash(bundle: Stored, name: str, progress: Callable[[int], None]) -> str:
    digest, _ = parts.sha256(bundle.files[name], progress)
    return digest


def _some(faults: list[str]) -> list[str]:
    return faults[:_SHOWN] + ([f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else [])
