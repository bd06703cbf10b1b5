"""Images read from a `docker save` stream and compared: every kind of difference is named with its file and layer."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from typing import Any

import pytest
import zstandard

from kit.errors import IntegrityError
from kit.image.compare import differences, tree, tree_digest
from kit.image.saved import SavedImage, read
from kit.image.verify import identity, unlike
from kit.lock.document import Identity

EPOCH = 1793491200


def member(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.mtime, info.size = EPOCH, len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def folder(name: str, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.DIRTYPE, mode=0o755, **fields)


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def saved(*layers: bytes, pack: Any = lambda data: data, **config: Any) -> bytes:
    """What `docker save` writes for an image of these layers."""
    diff_ids = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
    document = {"created": "2026-11-01T00:00:00Z", "config": {"User": "2000:2000"}, "rootfs": {"diff_ids": diff_ids}}
    text = json.dumps(document | config).encode()
    names = [f"blobs/sha256/{n}" for n in range(len(layers))]
    manifest = json.dumps([{"Config": "blobs/sha256/config", "RepoTags": ["x:1"], "Layers": names}]).encode()
    blobs = [member(name, pack(layer)) for name, layer in zip(names, layers, strict=True)]
    return tar(*blobs, member("blobs/sha256/config", text), member("manifest.json", manifest))


def image(*layers: bytes, **config: Any) -> SavedImage:
    return read([saved(*layers, **config)])


BASE = tar(folder("etc"), member("etc/a", b"one"), member("etc/b", b"two"), folder("opt"), member("opt/x", b"x"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("size", [1, 7000, 1 << 30])
def test_a_saved_image_is_read_whatever_packed_it(pack: Any, size: int):
    data = saved(BASE, tar(member("etc/c", b"three")), pack=pack)
    step = max(1, min(size, 4096) if size == 1 else size)
    found = read(data[n : n + step] for n in range(0, len(data), step))
    assert [layer.diff_id for layer in found.layers] == found.config["rootfs"]["diff_ids"]
    assert found.layers[1].entries["etc/c"].sha256 == hashlib.sha256(b"three").hexdigest()
    assert list(found.layers[0].entries) == ["etc", "etc/a", "etc/b", "opt", "opt/x"]


def test_a_layer_that_is_not_the_stated_one_is_refused():
    data = saved(BASE).replace(b"one", b"0ne")
    with pytest.raises(IntegrityError, match="not the one that the image's configuration names"):
        read([data])


@pytest.mark.parametrize("data", [b"", b"not a tar" * 100, saved(BASE)[:2000], tar(member("manifest.json", b"[]"))])
def test_what_is_no_saved_image_is_refused(data: bytes):
    with pytest.raises(IntegrityError):
        read([data])


def test_the_tree_is_what_a_container_sees():
    second = tar(
        member("etc/.wh.a"),
        member("opt/.wh..wh..opq"),
        member("opt/y", b"y"),
        member("etc/hard", type=tarfile.LNKTYPE, linkname="etc/b"),
        member("etc/link", type=tarfile.SYMTYPE, linkname="b"),
    )
    found = tree(image(BASE, second))
    assert sorted(found) == ["etc", "etc/b", "etc/hard", "etc/link", "opt", "opt/y"]
    assert found["etc/hard"].sha256 == hashlib.sha256(b"two").hexdigest()


def test_the_tree_digest_leaves_out_times_layers_and_history_and_nothing_else():
    same = [
        image(BASE),
        image(tar(folder("etc", mtime=5), member("etc/b", b"two", mtime=9), member("etc/a", b"one")), OPT),
        image(BASE, created="2001-01-01T00:00:00Z", history=[{"created_by": "x"}]),
    ]
    assert len({tree_digest(i) for i in same}) == 1
    other = [
        image(BASE, tar(member("etc/a", b"ONE"))),
        image(BASE, tar(member("etc/a", b"one", mode=0o600))),
        image(BASE, tar(member("etc/a", b"one", uid=5))),
        image(BASE, tar(member("etc/new"))),
        image(BASE, config={"User": "0"}),
    ]
    assert len({tree_digest(i) for i in [*other, same[0]]}) == 6


OPT = tar(folder("opt"), member("opt/x", b"x"))


def test_equal_images_have_no_differences():
    assert list(differences(image(BASE), image(BASE))) == []


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        (member("etc/a", b"ONE"), ("layer 1: etc/a", "content")),
        (member("etc/a", b"one", mtime=EPOCH + 1), ("layer 1: etc/a", "time")),
        (member("etc/a", b"one", mode=0o755), ("layer 1: etc/a", "mode")),
        (member("etc/a", b"one", gid=7), ("layer 1: etc/a", "owner")),
        (member("etc/a", type=tarfile.SYMTYPE, linkname="b"), ("layer 1: etc/a", "kind")),
    ],
)
def test_a_difference_is_named_with_its_layer_file_and_reason(changed: Any, want: tuple[str, str]):
    found = list(differences(image(OPT, tar(member("etc/a", b"one"))), image(OPT, tar(changed))))
    assert (found[0].place, found[0].why) == want


def test_times_are_shown_as_people_read_them():
    [found] = differences(image(tar(member("a"))), image(tar(member("a", mtime=EPOCH + 61))))
    assert found.text == "2026-11-01T00:00:00 -> 2026-11-01T00:01:01"


def test_missing_added_and_reordered_entries_are_told_apart():
    a, b = member("a"), member("b")
    assert [(d.path, d.why) for d in differences(image(tar(a)), image(tar(b)))] == [("a", "missing"), ("b", "added")]
    [order] = differences(image(tar(a, b)), image(tar(b, a)))
    assert (order.place, order.why, order.text) == ("layer 0: ", "order", "a stands where b does")


def test_configuration_and_history_are_compared():
    [user] = differences(image(BASE), image(BASE, config={"User": "0"}))
    assert (user.path, user.text) == ("configuration User", "2000:2000 -> 0")
    [created] = differences(image(BASE), image(BASE, created="2001-01-01T00:00:00Z"))
    assert (created.path, created.why) == ("configuration created", "time")


def test_another_number_of_layers_still_names_the_file():
    found = [(d.path, d.why) for d in differences(image(BASE), image(BASE, tar(member("etc/a", b"x"))))]
    assert found == [("layers", "content"), ("etc/a", "content")]


def test_an_identity_is_compared_as_far_as_both_sides_know_it():
    one, two = image(BASE), image(BASE, tar(member("etc/a", b"x")))
    known = identity(one)
    assert unlike(known, identity(one)) == []
    assert unlike(known, Identity(tree=known.tree)) == []
    wrong = unlike(known, identity(two))
    assert [line.split(":")[0] for line in wrong] == ["file tree", "configuration", "layers"]
    assert unlike(known, Identity(tree=identity(two).tree)) == [wrong[0]]
