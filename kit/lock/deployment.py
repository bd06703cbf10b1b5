"""Gathers the lock of a deployment from what lies on this machine; no network, nothing built."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from kit import files
from kit.config import Deployment
from kit.errors import GateError, UsageError
from kit.image import recipes
from kit.image.load import for_deployment
from kit.lock import document
from kit.lock.document import Identity, Lock, LockedImage
from kit.lock.images import ALL_DEBIAN, DebianList, Say, WheelList
from kit.resources import folder

MAX_BYTES = 16 << 20


def path_of(deployment: Deployment) -> Path:
    """kit.yaml -> kit.lock, examples/embedded.yaml -> examples/embedded.lock."""
    return deployment.file.with_suffix(".lock")


def read(deployment: Deployment) -> Lock | None:
    """The lock beside kit.yaml; None where there is none. Raises UsageError when it is none, MissingError when it
    cannot be read."""
    path = path_of(deployment)
    try:
        return document.load(files.read(path, MAX_BYTES).decode(), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise files.no_read(path, error) from None
    except ValueError as error:  # not UTF-8, or too long
        raise document.damaged(str(path), [str(error)]) from None


def gather(deployment: Deployment) -> Lock:
    """The lock as it would be written now. A known identity is kept while the image's inputs stay the same."""
    kit = deployment.kit
    own = {deployment.file.name: _sha256(deployment.file.read_bytes())}
    root = folder("templates")
    own |= {f"templates/{p.relative_to(root)}": files.sha256(p) for p in root.rglob("*") if p.is_file()}
    models = {role: _model(deployment, role) for role in ("target", "drafter") if role == "target" or kit.speculative}
    if kit.engine.existing:
        image = LockedImage(reference=kit.engine.existing, vllm=kit.engine.vllm)
        return document.make(deployment.name, image, files=own, models=models, debian={}, wheels={})
    recipe = for_deployment(deployment)
    old = read(deployment)
    known = old.image.identity if old and old.image.input == recipe.digest else None
    image = LockedImage(
        reference=recipe.reference,
        input=recipe.digest,
        vllm=recipe.vllm,
        epoch=recipe.epoch,
        patches=[p for p in recipe.labels["kit.patches"].split(",") if p],
        identity=known,
    )
    own |= {f"image/{name}": _sha256(data) for name, data in recipe.files.items() if name != "requirements.lock"}
    own[f"image/{recipe.base.name}/customize.sh"] = _sha256(recipe.base.customize)
    return document.make(
        deployment.name,
        image,
        files=own,
        models=models,
        debian={d.name: f"{d.version} sha256:{d.sha256}" for d in recipe.base.debs},
        wheels={w.name: f"{w.version} sha256:{w.sha256}" for w in recipe.wheels},
    )


def update(deployment: Deployment, upgrade: Sequence[str], say: Say) -> list[str]:
    """Bring the lists under images/ and the lock up to date; returns what changed, in words.

    Raises UsageError for a name in `upgrade` that nothing locked has.
    """
    if not deployment.kit.engine.existing:
        _update_lists(deployment, upgrade, say)
    elif upgrade:
        raise UsageError("engine.existing names an image as it is; nothing in it can be upgraded")
    old, new = read(deployment), gather(deployment)
    changes = document.differences(old, new)
    if old != new:
        files.write(path_of(deployment), document.dump(new))
    return changes


def check(deployment: Deployment) -> None:
    """Raise GateError naming everything that differs from the lock."""
    path = path_of(deployment)
    old = read(deployment)
    if old is None:
        raise GateError(f"there is no {path}", hint=f"kit lock -f {deployment.file}")
    changes = []
    if not deployment.kit.engine.existing:
        changes = [f"{made.path} was made from other requirements" for made in _lists(deployment) if made.stale()]
    changes += document.differences(old, gather(deployment))
    if changes:
        raise GateError(
            f"{path} does not hold any more", evidence=changes, hint=f"kit lock -f {deployment.file}; review the diff"
        )


def record(deployment: Deployment, identity: Identity) -> None:
    """Write what a build of the locked inputs gave into the lock."""
    lock = gather(deployment)
    image = lock.image.model_copy(update={"identity": identity})
    files.write(path_of(deployment), document.dump(lock.model_copy(update={"image": image})))


def _lists(deployment: Deployment) -> tuple[WheelList, DebianList]:
    spec = recipes.read_image(deployment.image_recipe)
    if deployment.kit.engine.vllm not in spec.versions:
        raise UsageError(
            f"images/{deployment.image_recipe} has no recipe for vLLM {deployment.kit.engine.vllm}",
            hint=f"it has {', '.join(spec.versions)}; or add one to its image.yaml",
        )
    return WheelList(deployment.image_recipe, deployment.kit.engine.vllm), DebianList(spec.base)


def _update_lists(deployment: Deployment, upgrade: Sequence[str], say: Say) -> None:
    wheels, base = _lists(deployment)
    names = {w.name for w in wheels.locked()}
    packages = [name for name in upgrade if name != ALL_DEBIAN]
    for name in packages:
        if name not in names:
            is_deb = name in {d.name for d in base.locked()}
            raise UsageError(
                f"no locked wheel is called {name!r}",
                hint=f"kit lock --upgrade {ALL_DEBIAN}: Debian packages move together"
                if is_deb
                else f"kit lock --upgrade takes the names under wheels: in {path_of(deployment)}",
            )
    if ALL_DEBIAN in upgrade or base.stale():
        base.make(say)
    if packages or wheels.stale():
        wheels.make(packages, say)


def _model(deployment: Deployment, role: str) -> str:
    from kit.reference.store import digests, drafter_name, target_name

    kit = deployment.kit
    chosen = kit.model if role == "target" else kit.speculative.drafter  # type: ignore[union-attr]
    if chosen.reference:
        name = target_name(chosen.reference, kit.engine.vllm) if role == "target" else drafter_name(chosen.reference)
        where = name if role == "target" else f"drafters/{name}"
        return f"reference {name} sha256:{_sha256(json.dumps(digests()[where], sort_keys=True).encode())}"
    manifest = deployment.folder / f"{role}.manifest.json"
    known = f" sha256:{files.sha256(manifest)}" if manifest.exists() else ""
    return f"{chosen.path}{known}"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
