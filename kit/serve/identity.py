"""Is the image here the one that was qualified? Told from what the engine says of it, in no time.

What was qualified stands in the lock beside kit.yaml (`kit image verify --record`), or, for an
installed release, in its bundle.json. `kit image verify` reads every byte; this does not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from kit import files
from kit.config import Deployment
from kit.errors import IntegrityError
from kit.lock.document import damaged
from kit.parse import json_of, yaml_of
from kit.serve.container import docker_errors

if TYPE_CHECKING:
    from docker import DockerClient

INPUT = "kit.input"  # label of an image that the kit built; kit.image.recipe writes it
# containerd's store of blobs: of a Docker engine that runs its own containerd, and of the system's
CONTENT = "io.containerd.content.v1.content/blobs/sha256"
SYSTEM = Path("/var/lib/containerd")
_MAX_JSON = 8 << 20


@dataclass(frozen=True)
class Recorded:
    """What `file` records of an image: the digest of its inputs, of its configuration, and of each layer."""

    file: Path
    input: str | None
    config: str | None
    layers: tuple[str, ...]


class _Identity(BaseModel):
    config: str | None = None
    layers: tuple[str, ...] = ()


class _Locked(BaseModel):
    input: str | None = None
    identity: _Identity | None = None


class _Bundled(BaseModel):
    config: str
    layers: tuple[str, ...]


def recorded(deployment: Deployment) -> Recorded | None:
    """What is recorded of the deployment's image; None where nothing is.

    Raises UsageError for a lock, IntegrityError for a bundle.json that is there and says nothing: an image must not
    pass because the record of it is damaged.
    """
    lock, bundle = deployment.file.with_suffix(".lock"), deployment.folder.parent / "bundle.json"
    try:
        if os.path.lexists(lock):  # only its first part is parsed: `kit status` must be quick
            text = files.read(lock, _MAX_JSON).decode().partition("\nfiles:")[0]
            locked = _Locked.model_validate(_part(yaml_of(text)))
            known = locked.identity or _Identity()
            return Recorded(lock, locked.input, known.config, known.layers)
        if not os.path.lexists(bundle):
            return None
        found = _Bundled.model_validate(_part(json_of(files.read(bundle, _MAX_JSON))))
        return Recorded(bundle, None, found.config, found.layers)
    except OSError as error:
        raise files.no_read(lock if os.path.lexists(lock) else bundle, error) from None
    except ValueError as error:
        evidence = str(error).splitlines()[:3]
    if os.path.lexists(lock):
        raise damaged(str(lock), evidence)
    raise IntegrityError(
        f"{bundle} is damaged: it does not tell which image was qualified",
        evidence=evidence,
        hint="install the bundle again: sh install.sh KEY",
    )


def _part(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("image"), dict):
        raise ValueError("it tells of no image")
    return dict(value["image"])


def unlike(record: Recorded, attrs: Mapping[str, Any], config: str | None = None) -> list[str]:
    """What an image is not of what was recorded, in words; `attrs` as the engine inspects it, `config` its digest."""
    wrong = []
    label = (attrs.get("Config") or {}).get("Labels") or {}
    if record.input and label.get(INPUT) != record.input:
        return [f"inputs: recorded {record.input}, found {label.get(INPUT)}"]
    if _is_classic(attrs):  # there the image's ID is this digest
        config = str(attrs.get("Id"))
    if record.config and config and record.config != config:
        wrong.append(f"configuration: recorded {record.config}, found {config}")
    layers = tuple((attrs.get("RootFS") or {}).get("Layers") or ())
    if record.layers and len(record.layers) != len(layers):
        wrong.append(f"layers: recorded {len(record.layers)}, found {len(layers)}")
    elif record.layers:
        pairs = enumerate(zip(record.layers, layers, strict=True))
        wrong += [f"layer {n}: recorded {a}, found {b}" for n, (a, b) in pairs if a != b]
    return wrong


def check(
    deployment: Deployment, client: DockerClient, image: str, data_root: Path, say: Callable[[str], None]
) -> None:
    """Raise IntegrityError when the engine's `image` is not the one that was qualified; say when none was."""
    record = recorded(deployment)
    if record is None:
        return
    with docker_errors(f"looking for image {image}"):
        attrs = client.images.get(image).attrs
    if record.input and not image.endswith(f"-{record.input[:12]}"):
        say(f"{record.file.name} is of other inputs than this image; kit lock -f {deployment.file} writes it anew")
        return
    wrong = unlike(record, attrs, config_digest(data_root, str(attrs.get("Id"))))
    released = record.file.name == "bundle.json"
    if wrong and not released and _is_classic(attrs) and not wrong[0].startswith("inputs"):
        # the way in which such a store packs the layers of a build is not promised for every version
        say(f"the image has other layers than {record.file.name} records; kit image verify compares its files")
    elif wrong:
        raise IntegrityError(
            f"the image {image} is not the one that {record.file} records; nothing was started",
            evidence=wrong,
            hint="install the bundle again: sh install.sh KEY"
            if released
            else f"kit image verify -f {deployment.file} says what differs; kit image build --again builds it anew",
        )
    elif record.layers:
        say(f"the image is the one that {record.file.name} records")


def _is_classic(attrs: Mapping[str, Any]) -> bool:
    """Whether an image lies in the store that Docker had before containerd's."""
    return (attrs.get("GraphDriver") or {}).get("Name") == "overlay2"


def config_digest(data_root: Path, image_id: str) -> str | None:
    """The digest of an image's configuration, where the engine's blobs are files that we may read; else None."""
    for store in (data_root / "containerd" / "daemon" / CONTENT, SYSTEM / CONTENT):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            manifest = _json(store, image_id)
            for described in manifest.get("manifests", []):
                if described["platform"]["os"] == "linux":  # an attestation has os "unknown"
                    manifest = _json(store, described["digest"])
                    break
            return str(manifest["config"]["digest"])
    return None


def _json(store: Path, digest: str) -> Any:
    path = store / digest.removeprefix("sha256:")
    if path.stat().st_size > _MAX_JSON:
        raise ValueError
    return json_of(path.read_bytes())
