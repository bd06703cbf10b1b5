"""Is the image here the one that was qualified? Told from what the engine says of it, in no time.

What was qualified stands in the lock beside kit.yaml (`kit image verify --record`), or, for an
installed release, in its bundle.json. `kit image verify` reads every byte; this does not.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kit.config import Deployment
from kit.errors import IntegrityError
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


def recorded(deployment: Deployment) -> Recorded | None:
    """What is recorded of the deployment's image; None where nothing is, or it cannot be read."""
    lock, bundle = deployment.file.with_suffix(".lock"), deployment.folder.parent / "bundle.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        if lock.is_file():  # only its first part is parsed: `kit status` must be quick
            image = yaml.safe_load(lock.read_text().partition("\nfiles:")[0])["image"]
            identity = image.get("identity") or {}
            return Recorded(lock, image.get("input"), identity.get("config"), tuple(identity.get("layers") or ()))
        image = json.loads(bundle.read_text())["image"]
        return Recorded(bundle, None, image["config"], tuple(image["layers"]))
    return None


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
    return json.loads(path.read_bytes())
