"""The lock of a deployment (kit.lock beside kit.yaml): every input by hash in one file that a person reviews."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kit.errors import UsageError
from kit.parse import yaml_of

_HEAD = """\
# Every input of this deployment, by content. Written by `kit lock`; review its diff, do not edit it.
# kit lock --check says whether it still holds; kit lock --upgrade NAME moves one package.
"""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


class Identity(_Model):
    """What a build of these inputs gives: equal wherever it was built so far (see `kit image verify`)."""

    config: str | None = Field(None, description="digest of the image's configuration (containerd image store)")
    layers: list[str] = Field([], description="diffIDs, lowest layer first (containerd image store)")
    tree: str | None = Field(None, description="digest of the file tree without times: equal on every engine")


class LockedImage(_Model):
    """The image that is built, or the name of an existing one."""

    reference: str
    input: str | None = Field(None, description="digest over every input of the build")
    vllm: str
    epoch: int | None = Field(None, description="SOURCE_DATE_EPOCH of the build, seconds")
    patches: list[str] = Field([], description="ids, in order")
    identity: Identity | None = None


class Lock(_Model):
    """The whole document; mappings are name -> what it is, sorted by name."""

    schema_: Literal["kit.lock/1"] = Field("kit.lock/1", alias="schema")
    deployment: str
    digest: str = Field(description="SHA-256 over everything below but the identity")
    image: LockedImage
    files: dict[str, str] = Field(description="path -> sha256 of what decides the build and the rendered tree")
    models: dict[str, str] = Field(description="role -> what it is, and the sha256 of its manifest where there is one")
    debian: dict[str, str] = Field({}, description="package -> version, sha256")
    wheels: dict[str, str] = Field({}, description="distribution -> version, sha256")


def make(
    deployment: str,
    image: LockedImage,
    *,
    files: Mapping[str, str],
    models: Mapping[str, str],
    debian: Mapping[str, str],
    wheels: Mapping[str, str],
) -> Lock:
    """A lock of these parts, its digest filled in."""
    parts = {
        "files": dict(sorted(files.items())),
        "models": dict(sorted(models.items())),
        "debian": dict(sorted(debian.items())),
        "wheels": dict(sorted(wheels.items())),
    }
    content = {"image": image.model_copy(update={"identity": None}).model_dump(), **parts}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return Lock.model_validate({"deployment": deployment, "digest": digest, "image": image, **parts})


def dump(lock: Lock) -> str:
    """The text of a kit.lock: one line for each input, so that a diff shows each change as one."""
    document = lock.model_dump(by_alias=True, exclude_none=True)
    return _HEAD + yaml.safe_dump(document, sort_keys=False, width=10_000, allow_unicode=False)


def load(text: str, where: str) -> Lock:
    """Read a kit.lock. Raises UsageError naming `where` when it is not one."""
    try:
        return Lock.model_validate(yaml_of(text))
    except ValidationError as error:  # a ValueError too
        evidence = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5]]
    except ValueError as error:
        evidence = [str(error)]
    raise damaged(where, evidence)


def damaged(where: str, evidence: list[str]) -> UsageError:
    """The error for a lock that cannot be read: `kit lock` would lose the identity that only the old one records."""
    return UsageError(
        f"{where}: not a lock that `kit lock` wrote",
        hint=f"git checkout {where} brings it back; or remove it, then: kit lock",
        evidence=evidence,
    )


def differences(old: Lock | None, new: Lock) -> list[str]:
    """What changed from `old` to `new`, one line a change, in words."""
    if old is None:
        counts = f"{len(new.debian)} Debian packages, {len(new.wheels)} wheels, {len(new.files)} files"
        return [f"first lock of {new.deployment}: {counts}"]
    lines = []
    for part, kind in (("debian", "Debian package"), ("wheels", "wheel"), ("files", "file"), ("models", "model")):
        before, after = getattr(old, part), getattr(new, part)
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                lines.append(f"{kind} {name}: {_change(before.get(name), after.get(name))}")
    if old.image.patches != new.image.patches:
        lines.append(f"patches: {', '.join(old.image.patches) or 'none'} -> {', '.join(new.image.patches) or 'none'}")
    for field in ("vllm", "epoch", "reference"):
        before, after = getattr(old.image, field), getattr(new.image, field)
        if before != after:
            lines.append(f"image {field}: {before} -> {after}")
    return lines


def _change(before: str | None, after: str | None) -> str:
    if before is None:
        return f"new, {_version(after)}"
    if after is None:
        return f"gone (was {_version(before)})"
    if _version(before) == _version(after) != "":
        return f"the same version {_version(after)} with OTHER CONTENT ({_hash(before)} -> {_hash(after)})"
    if not _version(before):
        return f"changed ({_hash(before)} -> {_hash(after)})"
    return f"{_version(before)} -> {_version(after)}"


def _version(text: str | None) -> str:
    return (text or "").rpartition("sha256:")[0].strip()


def _hash(text: str) -> str:
    return text.rpartition("sha256:")[2][:12]
