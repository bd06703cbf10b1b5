"""The store: verified on the way in and at use, whole or not at all, shared, tidied, carried."""

import hashlib
import multiprocessing
from pathlib import Path

import pytest

from kit.errors import IntegrityError, MissingError
from kit.store import vendor
from kit.store.store import Item, Store


def item(name: str, content: bytes) -> Item:
    return Item(name, len(content), hashlib.sha256(content).hexdigest())


def put(store: Store, name: str, content: bytes) -> Item:
    made = item(name, content)
    with store.filling() as scratch:
        (scratch / name).write_bytes(content)
        store.add(scratch / name, made)
    return made


def test_content_goes_in_and_comes_out_under_its_name(tmp_path: Path):
    store = Store(tmp_path / "store")
    a = put(store, "a.whl", b"content")
    assert store.has(a.sha256) and store.missing([a, item("b", b"other")]) == [item("b", b"other")]
    store.stage([a], tmp_path / "out")
    assert (tmp_path / "out" / "a.whl").read_bytes() == b"content"
    assert store.contents() == {a.sha256: 7}


def test_wrong_content_is_refused_with_both_hashes(tmp_path: Path):
    store = Store(tmp_path)
    wanted = item("a.whl", b"locked")
    with store.filling() as scratch, pytest.raises(IntegrityError) as caught:
        (scratch / "a.whl").write_bytes(b"other")
        store.add(scratch / "a.whl", wanted)
    assert caught.value.evidence == [
        f"sha256 locked: {wanted.sha256}",
        f"sha256 found:  {item('', b'other').sha256}",
    ]
    assert not store.has(wanted.sha256) and not list(tmp_path.glob("part-*"))


def test_damage_on_disk_is_found_at_use_and_mended_by_the_next_fetch(tmp_path: Path):
    store = Store(tmp_path / "store")
    a = put(store, "a.whl", b"content")
    store.path(a.sha256).chmod(0o644)
    store.path(a.sha256).write_bytes(b"c0ntent")
    with pytest.raises(IntegrityError, match="kept in the store"):
        store.stage([a], tmp_path / "out")
    assert store.missing([a]) == [a]
    put(store, "a.whl", b"content")
    store.stage([a], tmp_path / "out2")


def test_what_is_not_there_says_how_to_get_it(tmp_path: Path):
    with pytest.raises(MissingError) as caught:
        Store(tmp_path).stage([item("a", b"1")], tmp_path / "out")
    assert caught.value.hint == "kit fetch"


def test_collect_keeps_what_is_named(tmp_path: Path):
    store = Store(tmp_path)
    a, b = put(store, "a", b"keep"), put(store, "b", b"drop this")
    assert store.collect([a.sha256]) == (1, 9)
    assert store.contents() == {a.sha256: 4}
    assert not store.has(b.sha256)


def test_scratch_of_a_killed_kit_is_removed(tmp_path: Path):
    store = Store(tmp_path)
    put(store, "a", b"1")
    (tmp_path / "part-dead").mkdir()
    (tmp_path / "part-dead" / "half").write_bytes(b"x")
    put(store, "b", b"2")
    assert not list(tmp_path.glob("part-*"))


def _fill(root: Path, number: int) -> None:
    for round_ in range(20):
        put(Store(root), f"{number}-{round_}", b"shared %d" % round_)


def test_two_at_once_leave_every_file_whole(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_fill, args=(tmp_path, n)) for n in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
        assert process.exitcode == 0
    store = Store(tmp_path)
    assert set(store.contents()) == {item("", b"shared %d" % n).sha256 for n in range(20)}
    store.stage([item(str(n), b"shared %d" % n) for n in range(20)], tmp_path / "out")


def test_a_vendored_folder_fills_another_store(tmp_path: Path):
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    items = [put(here, "a.whl", b"one"), put(here, "b.deb", b"two")]
    assert vendor.give(tmp_path / "carried", here, items) == 6
    assert (tmp_path / "carried" / "SHA256SUMS").read_text() == "".join(f"{i.sha256}  {i.name}\n" for i in items)
    assert vendor.take(tmp_path / "carried", there, items) == 2
    assert there.contents() == here.contents()
    assert vendor.take(tmp_path / "carried", there, items) == 0


def test_a_changed_file_in_a_vendored_folder_is_refused(tmp_path: Path):
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    items = [put(here, "a.whl", b"one")]
    vendor.give(tmp_path / "carried", here, items)
    (tmp_path / "carried" / "a.whl").unlink()
    (tmp_path / "carried" / "a.whl").write_bytes(b"0ne")
    with pytest.raises(IntegrityError):
        vendor.take(tmp_path / "carried", there, items)
    assert there.contents() == {}
    with pytest.raises(MissingError, match="SHA256SUMS"):
        vendor.take(tmp_path / "here", there, items)
