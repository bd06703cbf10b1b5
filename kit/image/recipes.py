"""Reads images/NAME/image.yaml and the lock files beside it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kit.errors import MissingError, UsageError
from kit.lock import debs, wheels
from kit.lock.debs import Deb
from kit.lock.wheels import Wheel
from kit.resources import folder


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BaseSpec(_Model):
    """images/NAME/image.yaml of a base: the system that images stand on."""

    schema_: Literal["kit.base/1"] = Field(alias="schema")
    suite: str = Field(description="Debian suite", pattern="^[a-z]+$")
    created: date = Field(description="date of every file in it that is not older")
    packages: list[str] = Field(description="packages beside Debian's essential ones")


class VersionSpec(_Model):
    """One vLLM release of an image."""

    created: date = Field(description="the image's date; no file in it is younger")
    without: list[str] = Field([], description="distributions that are asked for but left out")
    instead: list[str] = Field(
        [], description="requirements that replace what the release asks for, such as torch==1.2.3"
    )
    also_known_as: dict[str, str] = Field({}, description="installed distribution -> name==version it answers to too")


class ImageSpec(_Model):
    """images/NAME/image.yaml of an image that serves."""

    schema_: Literal["kit.image/1"] = Field(alias="schema")
    text: str = Field(description="one line for people")
    base: str = Field(description="the base, a folder of images/")
    python: str = Field(description="CPython of the base", pattern=r"^3\.\d+$")
    glibc: int = Field(36, description="minor version of the base's glibc 2.x")
    gpu: bool = Field(False, description="its modules must hold code for GPUs; the image's label says for which")
    rehearsal: bool = Field(False, description="for kit rehearse only: has the changes of images/rehearsal-patches too")
    env: dict[str, str] = Field({}, description="environment of every process in the image")
    versions: dict[str, VersionSpec] = Field(description="vLLM release -> how it is installed")


M = TypeVar("M", bound=BaseModel)


def read_image(name: str, images: Path | None = None) -> ImageSpec:
    """The description of image `name`. Raises UsageError when there is none or it is not right."""
    return _read(name, ImageSpec, images)


def read_base(name: str, images: Path | None = None) -> BaseSpec:
    """The description of base `name`. Raises like `read_image`."""
    return _read(name, BaseSpec, images)


def names(images: Path | None = None) -> list[str]:
    """The images (not bases) that can be built."""
    root = images or folder("images")
    found = sorted(p.parent.name for p in root.glob("*/image.yaml"))
    return [name for name in found if "schema: kit.image/" in (root / name / "image.yaml").read_text()]


def requirements_in(name: str, version: str, images: Path | None = None) -> Path:
    return (images or folder("images")) / name / version / "requirements.in"


def wheels_lock(name: str, version: str, images: Path | None = None) -> Path:
    return (images or folder("images")) / name / version / "requirements.lock"


def debian_lock(base: str, images: Path | None = None) -> Path:
    return (images or folder("images")) / base / "debian.lock"


def locked_wheels(name: str, version: str, images: Path | None = None) -> list[Wheel]:
    """The wheels of an image. Raises MissingError where they were never locked."""
    path = wheels_lock(name, version, images)
    return wheels.load(_text(path), str(path))


def locked_debs(base: str, images: Path | None = None) -> list[Deb]:
    """The Debian packages of a base. Raises MissingError where they were never locked."""
    path = debian_lock(base, images)
    return debs.load(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist: its inputs were never locked", hint="kit lock") from None


def _read(name: str, model: type[M], images: Path | None) -> M:
    path = (images or folder("images")) / name / "image.yaml"
    try:
        document: Any = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise UsageError(
            f"there is no image recipe {name!r}", hint="kit image list", evidence=[f"looked for {path}"]
        ) from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not YAML", evidence=str(error).splitlines()[:4]) from None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise UsageError(f"{path}: not a good recipe", evidence=faults) from None
