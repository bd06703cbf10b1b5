"""The SBOM says what is in the image: packages of all layers, deletions followed, licences, hashes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from cyclonedx import spdx

from kit.bundle.images import read_archive
from kit.errors import IntegrityError
from kit.sbom import licences, sbom, tree
from kit.sbom.packages import Package, packages

SITE = "opt/venv/lib/python3.11/site-packages/"
STATUS = b"""Package: libexample1
Status: install ok installed
Maintainer: Debian Example Team <team@example.org>
Architecture: amd64
Multi-Arch: same
Version: 2:1.2+dfsg-3~deb12u1
Description: an example
 Package: not-a-package
 Version: 9

Package: example-data
Status: install ok installed
Architecture: all
Version: 1.2-3

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
COPYRIGHT = b"""Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
License: Expat

Files: *
License: GPL-2+ or Artistic, and BSD-3-clause

Files: x/*
License: Weird-1

License: Weird-1
 Only the text, not a use of it.
"""
METADATA = (
    b"Metadata-Version: 2.4\nName: Some_Package\nVersion: 1.0+cpu\nLicense-Expression: MIT OR Apache-2.0\n\nName: x\n"
)
RECORD = b"some_package/__init__.py,sha256=abc,0\n"

BASE = {
    "etc/os-release": "link:../usr/lib/os-release",
    "usr/lib/os-release": b'PRETTY_NAME="Debian"\nID=debian\nVERSION_ID="12"\n',
    "var/lib/dpkg/status": STATUS,
    "var/lib/dpkg/info/libexample1:amd64.md5sums": b"abc  usr/lib/x\n",
    "usr/share/doc/libexample1/copyright": COPYRIGHT,
    "usr/share/doc/example-data": "link:libexample1",
    f"{SITE}gone-1.0.dist-info/METADATA": b"Name: gone\nVersion: 1.0\n",
    f"{SITE}hidden/old-1.0.dist-info/METADATA": b"Name: old\nVersion: 1.0\n",
}
TOP = {
    f"{SITE}some_package-1.0+cpu.dist-info/METADATA": METADATA,
    f"{SITE}some_package-1.0+cpu.dist-info/RECORD": RECORD,
    f"{SITE}vllm-0.16.0.dist-info/METADATA": b"Name: vllm\nVersion: 0.16.0\nLicense: Apache 2.0\nClassifier: x\n",
    f"{SITE}quiet-2.dist-info/METADATA": b"Name: quiet\nVersion: 2\nLicense-File: LICENSE\n",
    f"{SITE}quiet-2.dist-info/licenses/LICENSE": b"  Apache License\n  Version 2.0, January 2004\n",
    f"{SITE}.wh.gone-1.0.dist-info": b"",
    f"{SITE}hidden/.wh..wh..opq": b"",
    "opt/kit/patches.json": json.dumps({"patches": [{"id": "a-patch", "title": "Mends <it>"}]}).encode(),
}


def layer(files: dict[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo("./" + name)
            if isinstance(data, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, data.removeprefix("link:")
                archive.addfile(entry)
            else:
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def archive(path: Path, layers: list[bytes], zipped: bool) -> Path:
    stored = [gzip.compress(data) if zipped else data for data in layers]
    diff_ids = [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in layers]
    names = [f"layer{number}" for number in range(len(layers))]
    files: dict[str, bytes | str] = dict(zip(names, stored, strict=True))
    files["config"] = json.dumps({"rootfs": {"diff_ids": diff_ids}}).encode()
    files["manifest.json"] = json.dumps([{"Config": "config", "RepoTags": None, "Layers": names}]).encode()
    path.write_bytes(layer(files))
    return path


@pytest.fixture(params=[False, True], ids=["plain", "gzip"])
def image(tmp_path, request):
    return read_archive(archive(tmp_path / "image.tar", [layer(BASE), layer(TOP)], request.param))


def test_packages(image):
    found = packages(tree.read(image))
    copied = ("Artistic-1.0-Perl", "BSD-3-Clause", "GPL-2.0-or-later", "MIT", "Weird-1")
    team = "Debian Example Team <team@example.org>"
    listing = hashlib.sha256(b"abc  usr/lib/x\n").hexdigest()
    record = hashlib.sha256(RECORD).hexdigest()
    info = f"{SITE}some_package-1.0+cpu.dist-info/METADATA"
    status = "var/lib/dpkg/status"
    assert found == [
        Package("deb", "example-data", "1.2-3", "all", copied, "", None, status),
        Package("deb", "libexample1", "2:1.2+dfsg-3~deb12u1", "amd64", copied, team, listing, status),
        Package("pypi", "quiet", "2", "", ("Apache-2.0",), "", None, f"{SITE}quiet-2.dist-info/METADATA"),
        Package("pypi", "some-package", "1.0+cpu", "", ("MIT OR Apache-2.0",), "", record, info),
        Package("pypi", "vllm", "0.16.0", "", ("Apache-2.0",), "", None, f"{SITE}vllm-0.16.0.dist-info/METADATA"),
    ]


def test_document(image):
    locked = {("pypi", "some-package", "1.0+cpu"): "ab" * 32}
    text = sbom(image, "vllm-kit/x:1", 1_700_000_000, locked)
    assert text == sbom(image, "vllm-kit/x:1", 1_700_000_000, locked)
    found = json.loads(text)
    assert found["specVersion"] == "1.6" and found["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert found["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": image.config_digest[7:]}]
    by_name = {part["name"]: part for part in found["components"]}
    assert list(by_name) == sorted(by_name)
    deb = by_name["libexample1"]
    assert deb["purl"] == "pkg:deb/debian/libexample1@2:1.2%2Bdfsg-3~deb12u1?arch=amd64&distro=debian-12"
    assert {"license": {"id": "GPL-2.0-or-later"}} in deb["licenses"]
    assert {"license": {"name": "Weird-1"}} in deb["licenses"]
    wheel = by_name["some-package"]
    assert wheel["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert wheel["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert {"name": "kit:hash-of", "value": "package file, as locked"} in wheel["properties"]
    assert deb["hashes"][0]["content"] == hashlib.sha256(b"abc  usr/lib/x\n").hexdigest()
    (patch,) = by_name["vllm"]["pedigree"]["patches"]
    assert patch["resolves"][0]["id"] == "a-patch"
    assert "pedigree" not in wheel
    (everything,) = [d for d in found["dependencies"] if d["ref"] == "image"]
    assert len(everything["dependsOn"]) == 5


def test_another_image_has_another_serial_number(tmp_path):
    one = read_archive(archive(tmp_path / "1.tar", [layer(BASE)], False))
    two = read_archive(archive(tmp_path / "2.tar", [layer(TOP)], False))
    numbers = {json.loads(sbom(image, "x:1", 0, {}))["serialNumber"] for image in (one, two)}
    assert len(numbers) == 2


def test_broken_layer(tmp_path):
    path = archive(tmp_path / "1.tar", [layer(BASE)], True)
    image = read_archive(path)
    with path.open("r+b") as handle:
        handle.seek(image.blobs[0].offset + 40)
        handle.write(bytes(60))
    with pytest.raises(IntegrityError, match="layer 0"):
        sbom(image, "x:1", 0, {})


@pytest.mark.parametrize("kind", ["debian", "phrases", "python"])
def test_every_spelling_leads_to_an_spdx_identifier(kind):
    assert [v for v in licences.spellings()[kind].values() if not spdx.is_supported_id(v)] == []


@pytest.mark.parametrize(
    ("expression", "licence", "classifiers", "want"),
    [
        ("Apache-2.0 AND MIT", "ignored", [], ("Apache-2.0 AND MIT",)),
        ("", "MIT License", [], ("MIT",)),
        ("", "Copyright (c) 2020\nPermission is hereby", ["License :: OSI Approved :: MIT License"], ("MIT",)),
        (
            "",
            "MIT License\n\nPermission is hereby granted, free of charge,\nto any person obtaining a copy",
            [],
            ("MIT",),
        ),
        ("", "UNKNOWN", ["License :: OSI Approved :: Apache Software License"], ("Apache-2.0",)),
        ("", "", ["License :: OSI Approved"], ()),
        ("", "", ["License :: Other/Proprietary License"], ("Other/Proprietary License",)),
    ],
)
def test_python_licences(expression, licence, classifiers, want):
    assert licences.python(expression, licence, classifiers) == want


def test_debian_prose():
    text = "On Debian systems see /usr/share/common-licenses/GPL-2 and `/usr/share/common-licenses/LGPL-2.1'."
    assert licences.debian(text) == ("GPL-2", "LGPL-2.1")
    assert licences.debian("PYTHON SOFTWARE\n   FOUNDATION LICENSE VERSION 2\n---") == ("PSF-2.0",)
