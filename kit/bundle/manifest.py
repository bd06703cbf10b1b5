"""bundle.json: what a bundle says of itself. Believed only after its hash and the signature were checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from kit.config.schema import Name, Text, Version
from kit.errors import IntegrityError

MAX_BYTES = 1 << 20
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")]
Release = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][A-Za-z0-9.+-]{0,99}$")]


class Part(BaseModel):
    """What the models here share."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", protected_namespaces=())


class Image(Part):
    """The image's identity: what an engine must show after loading it. Sizes in bytes, uncompressed."""

    reference: Text = Field(description="name:tag under which it is loaded")
    config: Digest = Field(description="digest of its configuration: the ID on an engine with the classic store")
    manifest: Digest = Field(description="digest of the manifest in this archive: the ID on a containerd store")
    layers: list[Digest] = Field(description="diffIDs: digests of the uncompressed layers, lowest first")
    tree: Text | None = Field(None, description="digest of the file tree without times, equal on every engine")
    size: int = Field(ge=0, description="bytes of the uncompressed archive")


class SiteValue(Part):
    """A value of kit.yaml that the operator's machine may have to change."""

    key: Text
    variable: Text
    value: Text
    needed: bool = Field(description="the value of kit.yaml cannot be right on another machine")


class Manifest(Part):
    """bundle.json."""

    schema_: Literal["kit.bundle/1"] = Field("kit.bundle/1", alias="schema")
    name: Name = Field(description="name of the deployment")
    release: Release = Field(description="name of this release; made from what it holds")
    kit: Text = Field(description="version of the kit inside")
    vllm: Version
    device: Literal["cuda", "cpu"]
    epoch: int = Field(ge=0, description="SOURCE_DATE_EPOCH of the build, seconds")
    expires: Day | None = Field(None, description="day from which the bundle is refused (UTC)")
    python: list[Text] = Field(description="Python versions that the wheels inside serve")
    image: Image
    qualified: bool = Field(description="the reports of a passed smoke test with this very image are inside")
    sources: bool = Field(description="the store of build inputs is inside")
    site: list[SiteValue] = Field([])

    def to_bytes(self) -> bytes:
        """The file's bytes, one form for one value."""
        return (json.dumps(self.model_dump(by_alias=True), indent=1, ensure_ascii=True) + "\n").encode()


def load(data: bytes) -> Manifest:
    """Read bundle.json. Raises IntegrityError for one that this kit does not understand."""
    try:
        return Manifest.model_validate_json(data)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False)[:5]]
        raise IntegrityError(
            "bundle.json is not one that this kit understands",
            evidence=faults,
            hint="use the kit that came with the bundle: sh install.sh",
        ) from None


def release_name(name: str, vllm: str, image_config: str, contents: Mapping[str, str]) -> str:
    """The release's name: deployment, vLLM version, and 12 hex digits of everything inside.

    `contents` maps file names to SHA-256, the image's archive left out: how it was compressed and
    split does not make it another release.
    """
    text = "".join(f"{contents[key]}  {key}\n" for key in sorted(contents)) + image_config
    return f"{name}-{vllm}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
