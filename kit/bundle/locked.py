"""What the lock of a deployment gives to its bundle: files, hashes for the SBOM, the identity, the sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kit.bundle.images import ImageArchive
from kit.config import Deployment
from kit.errors import IntegrityError, MissingError, UsageError
from kit.image.load import for_deployment
from kit.image.verify import unlike
from kit.lock import debs
from kit.lock import deployment as locks
from kit.lock.document import Identity, Lock
from kit.store.inputs import items_of
from kit.store.store import Store
from kit.store.vendor import SUMS


@dataclass(frozen=True)
class Locked:
    """`files` for the bundle's lock/ and model/; `hashes` as `kit.sbom.sbom` takes them; `identity` of the image."""

    files: Mapping[str, bytes]
    hashes: Mapping[tuple[str, str, str], str]
    identity: Identity


def locked(deployment: Deployment) -> Locked:
    """Read the lock. Raises GateError when it does not hold, MissingError for a model without a manifest."""
    locks.check(deployment)
    path = locks.path_of(deployment)
    lock = locks.read(deployment)
    assert lock is not None  # `check` raises where there is none
    files = {"lock/kit.lock": path.read_bytes(), **_manifests(deployment)}
    if not deployment.kit.engine.existing:
        recipe = for_deployment(deployment)
        files["lock/requirements.lock"] = recipe.files["requirements.lock"]
        files["lock/debian.lock"] = debs.dump(recipe.base.debs).encode()
    return Locked(files, dict(_hashes(lock)), lock.image.identity or Identity())


def check_identity(found: Locked, image: ImageArchive) -> None:
    """Raise IntegrityError when the engine's image is not the one that the lock records."""
    here = Identity(config=image.config_digest, layers=list(image.diff_ids))
    if wrong := unlike(found.identity, here):
        raise IntegrityError(
            "the engine's image is not the one that the lock records",
            evidence=wrong,
            hint="kit image verify says what differs; kit image build --again builds it anew",
        )


def sources(deployment: Deployment) -> dict[str, bytes | Path]:
    """Every fetched input of the image, as `kit fetch --vendor` gives them. Raises MissingError, UsageError."""
    if deployment.kit.engine.existing:
        raise UsageError("engine.existing names an image as it is: the kit has no sources of it", hint="--no-sources")
    store, items = Store.default(), items_of(for_deployment(deployment))
    if lacking := store.missing(items):
        raise MissingError(
            f"{len(lacking)} of {len(items)} inputs are not in the store",
            evidence=[item.name for item in lacking[:5]],
            hint=f"kit fetch -f {deployment.file}",
        )
    listing = "".join(f"{i.sha256}  {i.name}\n" for i in sorted(items, key=lambda i: i.name))
    found: dict[str, bytes | Path] = {f"sources/{item.name}": store.path(item.sha256) for item in items}
    return found | {f"sources/{SUMS}": listing.encode()}


def _hashes(lock: Lock) -> Mapping[tuple[str, str, str], str]:
    found = {}
    for kind, table in (("deb", lock.debian), ("pypi", lock.wheels)):
        for name, text in table.items():
            version, _, sha256 = text.partition(" sha256:")
            found[(kind, name, version)] = sha256
    return found


def _manifests(deployment: Deployment) -> dict[str, bytes]:
    """The manifests of models that travel apart: they lie beside kit.yaml, made by `kit model manifest`."""
    kit = deployment.kit
    folders = {"target": kit.model.path, "drafter": kit.speculative.drafter.path if kit.speculative else None}
    found = {}
    for role, folder in folders.items():
        if folder is None:
            continue
        path = deployment.folder / f"{role}.manifest.json"
        if not path.is_file():
            raise MissingError(
                f"the {role} has no manifest, by which operators verify their copy",
                hint=f"kit model manifest {deployment.path(folder)} -o {path}, then kit lock",
            )
        found[f"model/{path.name}"] = path.read_bytes()
    return found
