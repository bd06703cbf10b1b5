"""The patches that come with the kit: what each mends (catalog) and the series for each release.

images/patches/catalog/ID.yaml       what a patch is for, independent of a release
images/patches/vllm-X.Y/series.yaml  the diffs for those releases, in order, with hashes
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from kit.errors import UsageError
from kit.patches.inside.probe import PROBES
from kit.resources import folder

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
PythonFile = Annotated[str, StringConstraints(pattern=r"^vllm(/[A-Za-z0-9_]+)+\.py$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[0-9a-z][0-9a-z.-]*\.patch$")]
M = TypeVar("M", bound=BaseModel)
Process = Literal["api_server", "engine_core", "worker"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Symptom(_Model):
    """What a person sees without the patch."""

    process: Process = Field(description="where it appears first")
    exception: str = Field(description="class of the exception")
    text: list[str] = Field(min_length=1, description="texts that all stand in the message")
    example: str = Field(description="one whole message")


class Affects(_Model):
    """For which targets and methods a patch is needed."""

    methods: list[str] = Field(description="speculative methods")
    model_types: list[str] = Field(description="`model_type` at the top of the target's config.json")


class Probe(_Model):
    """The check on a source tree: `kind` names a function of kit/patches/inside/probe.py, the rest is for it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    kind: str
    files: list[PythonFile] = Field(min_length=1)

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in PROBES:
            raise ValueError(f"no probe of kit/patches/inside/probe.py is called {kind!r}: {', '.join(PROBES)}")
        return kind


class Patch(_Model):
    """One patch, independent of a release."""

    id: Id
    title: str
    why: str
    symptom: Symptom
    affects: Affects
    since: str = Field(description="first release known to need it")
    fixed_in: str | None = Field(description="first release that has it of its own; null: none has")
    probe: Probe
    live: list[str] = Field([], description="module:attribute that importing must show")

    def needed_by(self, vllm: str) -> bool:
        """Whether that release needs it, as far as this file knows."""
        return self.fixed_in is None or release(vllm) < Version(self.fixed_in)


class Hashes(_Model):
    """SHA-256 of a file before and after a patch."""

    before: Sha256
    after: Sha256


class Diff(_Model):
    """A patch's diff for the releases of one series."""

    id: Id
    file: FileName
    files: dict[PythonFile, Hashes] = Field(min_length=1)


class _SeriesFile(_Model):
    vllm: list[str] = Field(min_length=1)
    patches: list[Diff] = Field(min_length=1)


@dataclass(frozen=True)
class Series:
    """The diffs for some releases, in the order of application, and the folder they lie in."""

    folder: Path
    vllm: tuple[str, ...]
    diffs: tuple[Diff, ...]

    def text(self, diff: Diff) -> str:
        return (self.folder / diff.file).read_bytes().decode()


@dataclass(frozen=True)
class Catalog:
    """Every patch by id, every series. `purpose` is product, or rehearsal for what must never serve."""

    purpose: Literal["product", "rehearsal"]
    patches: dict[str, Patch]
    series: tuple[Series, ...]

    def series_for(self, vllm: str) -> Series | None:
        wanted = str(release(vllm))
        return next((series for series in self.series if wanted in series.vllm), None)


def product() -> Catalog:
    """The patches for images that serve."""
    return load(folder("images") / "patches", "product")


def rehearsal() -> Catalog:
    """The changes that let a CPU build rehearse; kept apart, and refused wherever an image serves."""
    return load(folder("images") / "rehearsal-patches", "rehearsal")


def release(vllm: str) -> Version:
    """A vLLM version without its build tag (0.16.0+cpu is 0.16.0). Raises UsageError for what is none."""
    try:
        return Version(Version(vllm).public)
    except InvalidVersion:
        raise UsageError(f"{vllm!r} is not a vLLM version", hint="give a full release, such as --vllm 0.16.0") from None


def load(root: Path, purpose: Literal["product", "rehearsal"]) -> Catalog:
    """Read a folder of patches. Raises UsageError naming the file and what is wrong in it."""
    patches = {}
    for path in sorted((root / "catalog").glob("*.yaml")):
        patch = _read(path, Patch)
        if path.stem != patch.id:
            raise UsageError(f"{path}: the file's name must be its id, {patch.id}.yaml")
        patches[patch.id] = patch
    series = []
    for path in sorted(root.glob("vllm-*/series.yaml")):
        content = _read(path, _SeriesFile)
        unknown = [diff.id for diff in content.patches if diff.id not in patches]
        absent = [diff.file for diff in content.patches if not (path.parent / diff.file).is_file()]
        if unknown or absent:
            raise UsageError(f"{path}: nothing is known about {(unknown + absent)[0]}", hint=f"see {root}/README.md")
        series.append(Series(path.parent, tuple(content.vllm), tuple(content.patches)))
    return Catalog(purpose, patches, tuple(series))


def _read(path: Path, model: type[M]) -> M:
    try:
        value: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return model.model_validate(value)
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not YAML", evidence=str(error).splitlines()) from None
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise UsageError(f"{path} is not right", evidence=faults) from None
