"""The packages of an image as plain data, from dpkg's and Python's own records; pure."""

from __future__ import annotations

import email.parser
import email.policy
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from packaging.utils import canonicalize_name

from kit.sbom import licences
from kit.sbom.tree import DOC, DPKG, Tree


@dataclass(frozen=True, order=True)
class Package:
    """One installed package.

    `licences` are SPDX identifiers or expressions where known, else the words of the package.
    `listing` is the SHA-256 of the package's own list of installed files with their hashes
    (dpkg's md5sums, Python's RECORD), None where it has none.
    """

    kind: Literal["deb", "pypi"]
    name: str
    version: str
    arch: str
    licences: tuple[str, ...]
    supplier: str
    listing: str | None
    where: str


def packages(tree: Tree) -> list[Package]:
    """Every Debian and Python package of an image, sorted."""
    return sorted({*debian(tree), *python(tree)})


def debian(tree: Tree) -> Iterator[Package]:
    """The packages that dpkg counts as installed."""
    for path in sorted(tree.files):
        if path == f"{DPKG}status" or path.startswith(f"{DPKG}status.d/"):
            for stanza in re.split(r"\n\s*\n", tree.files[path].decode("utf-8", "replace")):
                if package := _deb(tree, _fields(stanza), path):
                    yield package


def _deb(tree: Tree, fields: dict[str, str], path: str) -> Package | None:
    if "Package" not in fields or "Version" not in fields:
        return None
    if fields.get("Status", "install ok installed").split()[-1] != "installed":
        return None
    name, arch = fields["Package"], fields.get("Architecture", "")
    copyright_ = tree.get(f"{DOC}{name}/copyright")
    sums = tree.files.get(f"{DPKG}info/{name}.md5sums") or tree.files.get(f"{DPKG}info/{name}:{arch}.md5sums")
    return Package(
        kind="deb",
        name=name,
        version=fields["Version"],
        arch=arch,
        licences=licences.debian(copyright_.decode("utf-8", "replace")) if copyright_ else (),
        supplier=fields.get("Maintainer", ""),
        listing=_sha256(sums),
        where=path,
    )


def python(tree: Tree) -> Iterator[Package]:
    """The distributions whose metadata lie anywhere in the image."""
    for path in sorted(tree.files):
        if not path.endswith((".dist-info/METADATA", ".egg-info/PKG-INFO", ".egg-info")):
            continue
        head = email.parser.BytesHeaderParser(policy=email.policy.compat32).parsebytes(tree.files[path])
        if not head["Name"] or not head["Version"]:
            continue
        named = licences.python(
            str(head["License-Expression"] or ""),
            str(head["License"] or ""),
            [str(value) for value in head.get_all("Classifier") or []],
        )
        yield Package(
            kind="pypi",
            name=canonicalize_name(str(head["Name"])),
            version=str(head["Version"]),
            arch="",
            licences=named or _from_texts(tree, path.rpartition("/")[0]),
            supplier=str(head["Author"] or head["Author-email"] or ""),
            listing=_sha256(tree.files.get(path.removesuffix("METADATA") + "RECORD")),
            where=path,
        )


def _from_texts(tree: Tree, folder: str) -> tuple[str, ...]:
    """The licences whose texts lie in a distribution's folder, where its metadata name none."""
    texts = [data for name, data in tree.files.items() if re.match(rf"{re.escape(folder)}/(licenses/)?(LIC|COP)", name)]
    return tuple(sorted({name for data in texts for name in licences.in_text(data.decode("utf-8", "replace"))}))


def _fields(stanza: str) -> dict[str, str]:
    """The one-line fields of a control stanza."""
    return dict(re.findall(r"(?m)^([A-Za-z-]+):[ \t]*(.*)$", stanza))


def _sha256(data: bytes | None) -> str | None:
    return hashlib.sha256(data).hexdigest() if data is not None else None
