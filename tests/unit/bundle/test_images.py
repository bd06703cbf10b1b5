"""Image archives in every form come out as one: same bytes for the same image."""

from __future__ import annotations

import hashlib
import json
import os
import random

import pytest
import zstandard

from kit.bundle import images, write
from kit.bundle.source import from_blobs
from kit.errors import IntegrityError, MissingError, UsageError

from .conftest import LAYERS, docker_archive, layer, sha


def whole(found: images.Canonical) -> bytes:
    return b"".join(map(bytes, found.stream()))  # copied: a chunk is good until the next is asked for


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("oci", [False, True])
def test_every_form_becomes_the_same(tmp_path, image, zipped, oci):
    path = tmp_path / "image.tar"
    docker_archive(path, LAYERS, zipped=zipped, oci=oci)
    found = images.canonical(images.read_archive(path), image.reference)
    assert whole(found) == whole(image)
    assert found.size == sum(len(chunk) for chunk in found.stream())


def test_the_canonical_archive_is_read_back(tmp_path, image):
    path = tmp_path / "canonical.tar"
    path.write_bytes(whole(image))
    again = images.canonical(images.read_archive(path), image.reference)
    assert again.manifest_digest == image.manifest_digest
    assert again.image.config == image.image.config
    assert [again.image.layer(n).read() for n in range(2)] == LAYERS


def test_blobs_on_disk(tmp_path, image):
    blobs = {sha(image.image.config): image.image.config, image.manifest_digest[7:]: image.manifest}
    blobs |= {sha(data): data for data in LAYERS}
    index = json.dumps(
        {
            "manifests": [
                {"digest": "sha256:" + "0" * 64, "platform": {"os": "unknown"}},
                {"digest": image.manifest_digest, "platform": {"os": "linux"}},
            ]
        }
    ).encode()
    blobs[sha(index)] = index
    for name, data in blobs.items():
        (tmp_path / name).write_bytes(data)
    for digest in (image.manifest_digest, f"sha256:{sha(index)}"):
        found = from_blobs(tmp_path, digest)
        assert found is not None
        assert whole(images.canonical(found, image.reference)) == whole(image)
    (tmp_path / sha(LAYERS[1])).unlink()
    assert from_blobs(tmp_path, image.manifest_digest) is None  # then the engine is asked
    assert from_blobs(tmp_path / "nowhere", image.manifest_digest) is None


def test_a_layer_that_is_not_the_one_named(tmp_path):
    path = tmp_path / "image.tar"
    docker_archive(path, LAYERS)
    archive = images.read_archive(path)
    with path.open("r+b") as handle:
        handle.seek(archive.blobs[1].offset + 700)
        handle.write(b"XX")
    with pytest.raises(IntegrityError, match="layer 1") as caught:
        whole(images.canonical(archive, "kit/x:1"))
    assert caught.value.evidence[0] == f"named: sha256:{sha(LAYERS[1])}"


def test_a_damaged_oci_configuration(tmp_path):
    path = tmp_path / "image.tar"
    docker_archive(path, LAYERS, oci=True)
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"amd64"', b'"arm64"'))
    with pytest.raises(IntegrityError, match="is damaged"):
        images.read_archive(path)


@pytest.mark.parametrize(
    "files", [{}, {"manifest.json": b"[]"}, {"manifest.json": b"{"}, {"index.json": b'{"manifests": []}'}]
)
def test_what_is_no_image(tmp_path, files):
    (tmp_path / "x.tar").write_bytes(layer(files))
    with pytest.raises(UsageError, match="not an archive of one image"):
        images.read_archive(tmp_path / "x.tar")
    (tmp_path / "x.tar").write_bytes(b"nonsense" * 1000)
    with pytest.raises(UsageError):
        images.read_archive(tmp_path / "x.tar")
    with pytest.raises(MissingError):
        images.read_archive(tmp_path / "none.tar")


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("x", "docker.io/library/x:latest"),
        ("x:1", "docker.io/library/x:1"),
        ("kit/x:1", "docker.io/kit/x:1"),
        ("localhost:5000/x", "localhost:5000/x:latest"),
        ("registry.example/a/b:2", "registry.example/a/b:2"),
    ],
)
def test_full_names(given, want):
    assert images.full_name(given) == want


def test_compression_depends_on_the_bytes_alone(monkeypatch):
    pick = random.Random(3)
    data = b"".join(pick.randbytes(50) * pick.randrange(1, 2000) for _ in range(500))  # several of zstd's jobs
    assert len(data) > 20 << 20
    digests = set()
    for threads, cut in ((1, 1 << 20), (2, 1 << 20), (16, 1 << 20), (2, 12_345), (2, len(data))):
        monkeypatch.setattr(os, "cpu_count", lambda threads=threads: threads)
        packed = b"".join(write.compress(data[at : at + cut] for at in range(0, len(data), cut)))
        digests.add(hashlib.sha256(packed).hexdigest())
    assert len(digests) == 1
    assert zstandard.ZstdDecompressor().decompressobj().decompress(packed) == data


def test_the_date_of_an_image(tmp_path):
    docker_archive(tmp_path / "a.tar", LAYERS, config={"created": "2026-11-01T00:00:00.5Z"})
    assert images.read_archive(tmp_path / "a.tar").created == 1793491200
    docker_archive(tmp_path / "b.tar", LAYERS)
    assert images.read_archive(tmp_path / "b.tar").created == 0
