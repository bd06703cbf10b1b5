"""A tiny image archive, keys and a bundle of them, made by the tests themselves."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from kit.bundle import images, manifest, write


def layer(files: Mapping[str, bytes]) -> bytes:
    """The tar of a layer. A name that ends in a slash is a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name.rstrip("/"))
            entry.size = len(data)
            entry.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def docker_archive(
    path: Path, layers: list[bytes], *, zipped: bool = False, oci: bool = False, config: Mapping[str, Any] = {}
) -> None:
    """An archive of one image as `docker save` (or, with `oci`, only an OCI layout) writes it."""
    described = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers"}, **config}
    described["rootfs"] = {"type": "layers", "diff_ids": [f"sha256:{sha(data)}" for data in layers]}
    text = json.dumps(described).encode()
    stored = [gzip.compress(data, mtime=0) if zipped else data for data in layers]
    files = {f"blobs/sha256/{sha(data)}": data for data in [text, *stored]}
    names = [f"blobs/sha256/{sha(data)}" for data in stored]
    if oci:
        inner = {
            "schemaVersion": 2,
            "config": {"digest": f"sha256:{sha(text)}", "size": len(text)},
            "layers": [{"digest": f"sha256:{sha(data)}", "size": len(data)} for data in stored],
        }
        data = json.dumps(inner).encode()
        files[f"blobs/sha256/{sha(data)}"] = data
        files["index.json"] = json.dumps({"manifests": [{"digest": f"sha256:{sha(data)}"}]}).encode()
    else:
        entry = {"Config": f"blobs/sha256/{sha(text)}", "RepoTags": ["x/y:1"], "Layers": names}
        files["manifest.json"] = json.dumps([entry]).encode()
    path.write_bytes(layer(files))


LAYERS = [
    layer({"etc/": b"", "etc/os-release": b"ID=debian\n"}),
    layer({"opt/model": random.Random(5).randbytes(3 << 20)}),
]
FILES: dict[str, bytes] = {
    "deployment/kit.yaml": b"schema: kit/1\n",
    "reports/smoke.json": b'{"verdict": "pass"}\n',
    "kit/wheels/some_package-1.0+cpu-py3-none-any.whl": b"PK" * 999,
    f"kit/wheels/{'x' * 110}-1.0-py3-none-any.whl": b"longer than the name field of a tar",
    "verify.sh": b"#!/bin/sh\n",
}


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> images.Canonical:
    path = tmp_path_factory.mktemp("image") / "image.tar"
    docker_archive(path, LAYERS)
    return images.canonical(images.read_archive(path), "kit/embedded:1")


@pytest.fixture(scope="session")
def small_image(tmp_path_factory: pytest.TempPathFactory) -> images.Canonical:
    path = tmp_path_factory.mktemp("image") / "image.tar"
    docker_archive(path, LAYERS[:1])
    return images.canonical(images.read_archive(path), "kit/embedded:1")


@pytest.fixture(scope="session")
def signer() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture(scope="session")
def key_files(tmp_path_factory: pytest.TempPathFactory, signer: Ed25519PrivateKey) -> Path:
    """A folder with kit.key (PEM), kit.pub (PEM), id.key (OpenSSH) and allowed_signers."""
    folder = tmp_path_factory.mktemp("keys")
    public = signer.public_key()
    ssh = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    for name, data in {
        "kit.key": signer.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "id.key": signer.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        "kit.pub": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "allowed_signers": f'kit namespaces="kit-bundle" {ssh}\n'.encode(),
    }.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)
    return folder


def bundle_json(image: images.Canonical, release: str, **more: Any) -> bytes:
    """The bundle.json of a test's bundle."""
    return manifest.Manifest(
        name="embedded",
        release=release,
        kit="0.1.0",
        vllm="0.32.0",
        device="cpu",
        epoch=0,
        python=["3.11"],
        image=manifest.Image(
            reference=image.reference,
            config=image.image.config_digest,
            manifest=image.manifest_digest,
            layers=list(image.image.diff_ids),
            size=image.size,
        ),
        qualified=True,
        sources=False,
        **more,
    ).to_bytes()


Pack = Callable[..., Path]


@pytest.fixture
def pack(tmp_path: Path, image: images.Canonical, signer: Ed25519PrivateKey) -> Pack:
    """Writes a bundle and returns its path: `form` "folder" or "file"."""

    def make(
        place: str = "out",
        form: str = "folder",
        chunk: int | None = None,
        signed: bool = True,
        files: Mapping[str, bytes] = FILES,
        image: images.Canonical = image,
        **more: Any,
    ) -> Path:
        release = manifest.release_name(
            "embedded", "0.32.0", image.image.config_digest, {name: sha(data) for name, data in files.items()}
        )
        path = tmp_path / place / (release if form == "folder" else f"{release}.tar")
        target = write.FolderTarget(path, chunk) if form == "folder" else write.FileTarget(path, release, chunk)
        write.write_bundle(
            target,
            files,
            image,
            lambda: {"bundle.json": bundle_json(image, release, **more)},
            signer if signed else None,
        )
        return path

    return make
