"""What an image is made of, as plain data: its inputs, its build files, the digest of them all, its name."""

from __future__ import annotations

import calendar
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from kit.image.recipes import BaseSpec, ImageSpec
from kit.lock import wheels as wheel_list
from kit.lock.debs import Deb
from kit.lock.wheels import Wheel

INPUT_LABEL = "kit.input"
PATCHES_LABEL = "kit.patches"
CODE_LABEL = "kit.gpu-code"
VLLM_LABEL = "kit.vllm"
REPOSITORY = "vllm-kit"
PLATFORM = "linux/amd64"
# Raised when the way of building changes in a manner that the inputs do not show.
_BASE_FORMAT = 3
_IMAGE_FORMAT = 1


@dataclass(frozen=True)
class Base:
    """The base system: its packages, the script that finishes it, its date; `digest` names this combination."""

    name: str
    suite: str
    debs: tuple[Deb, ...]
    customize: bytes
    epoch: int

    @property
    def digest(self) -> str:
        return _digest(
            {
                "format": _BASE_FORMAT,
                "suite": self.suite,
                "debs": [[d.name, d.version, d.sha256] for d in self.debs],
                "customize": _sha256(self.customize),
                "epoch": self.epoch,
            }
        )


@dataclass(frozen=True)
class Recipe:
    """An image to be built.

    `files` is the build context without the base and the wheels: path -> content (executable where
    in `executables`). `labels` go into the image. `digest` is over every input; `reference` is the
    image's name, which holds it, so that a change of any input is another name. Of an image for GPUs
    the build adds a label, CODE_LABEL, with what the wheels' modules hold (`kit.image.gpu_code`).
    """

    name: str
    vllm: str
    base: Base
    python: str
    glibc: int
    wheels: tuple[Wheel, ...]
    epoch: int
    files: Mapping[str, bytes]
    labels: Mapping[str, str]
    executables: frozenset[str] = field(default=frozenset({"inside/entrypoint"}))
    gpu: bool = False

    @property
    def digest(self) -> str:
        return _digest(
            {
                "format": _IMAGE_FORMAT,
                "platform": PLATFORM,
                "base": self.base.digest,
                "wheels": [[w.file, w.sha256] for w in self.wheels],
                "epoch": self.epoch,
                "files": {name: _sha256(content) for name, content in sorted(self.files.items())},
                "labels": dict(sorted(self.labels.items())),
            }
            | ({"gpu": True} if self.gpu else {})
        )

    @property
    def reference(self) -> str:
        return f"{REPOSITORY}/{self.name}:{self.vllm}-{self.digest[:12]}"


def base(name: str, spec: BaseSpec, debs: Sequence[Deb], customize: bytes) -> Base:
    """The base `name` with these packages."""
    return Base(name, spec.suite, tuple(sorted(debs)), customize, seconds(spec.created))


def template_variables(name: str, version: str, spec: ImageSpec, patches: str) -> dict[str, Any]:
    """What templates/image/Dockerfile.j2 is filled with. `patches` is the patch list as a label's value."""
    chosen = spec.versions[version]
    return {
        "epoch": seconds(chosen.created),
        "title": f"{spec.text}: recipe images/{name}, vLLM {version}",
        "env": dict(sorted((spec.env | ({"KIT_REHEARSAL": "1"} if spec.rehearsal else {})).items())),
        "site": f"/opt/venv/lib/python{spec.python}/site-packages",
        "aliases": [word for pair in sorted(chosen.also_known_as.items()) for word in pair],
        "labels": labels(name, version, spec, patches),
    }


def labels(name: str, version: str, spec: ImageSpec, patches: str) -> dict[str, str]:
    """The image's labels: OCI's annotation keys where there is one, `kit.` for the rest."""
    return {
        "org.opencontainers.image.title": f"{REPOSITORY}/{name}",
        "org.opencontainers.image.description": spec.text,
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.created": f"{spec.versions[version].created.isoformat()}T00:00:00Z",
        VLLM_LABEL: version,
        PATCHES_LABEL: patches,
        "kit.recipe": name,
    }


def recipe(
    name: str,
    version: str,
    spec: ImageSpec,
    *,
    on: Base,
    wheels: Sequence[Wheel],
    dockerfile: bytes,
    inside: Mapping[str, bytes],
    program: Mapping[str, bytes],
    series: Mapping[str, bytes],
    patches: str,
) -> Recipe:
    """Put an image together. `inside`, `program` and `series` are the build's own scripts, the patch program
    and the patches: file name -> content."""
    files = {"Dockerfile": dockerfile, "requirements.lock": wheel_list.dump(wheels).encode()}
    for place, content in (("inside", inside), ("patches", program), ("series", series)):
        files |= {f"{place}/{file}": data for file, data in content.items()}
    return Recipe(
        name=name,
        vllm=version,
        base=on,
        python=spec.python,
        glibc=spec.glibc,
        wheels=tuple(sorted(wheels)),
        epoch=seconds(spec.versions[version].created),
        files=files,
        labels=labels(name, version, spec, patches),
        gpu=spec.gpu,
    )


def seconds(day: date) -> int:
    """SOURCE_DATE_EPOCH of a day: its first second, UTC."""
    return calendar.timegm(day.timetuple())


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
