"""Every byte against a manifest: differences named, an interrupted run goes on, hostile manifests refused."""

from __future__ import annotations

import json
import os

import pytest

from kit.errors import IntegrityError, MissingError
from kit.model.manifest import BLOCK, Manifest, list_files, make_manifest, read_manifest, verify


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "model"
    (root / "sub").mkdir(parents=True)
    (root / "a.bin").write_bytes(b"a" * (BLOCK + 10))
    (root / "sub" / "b.bin").write_bytes(b"b")
    (root / "empty").write_bytes(b"")
    (root / ".hidden").write_bytes(b"h")
    (root / "link.bin").symlink_to("a.bin")
    (root / "dangling").symlink_to("gone")
    return root


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "state" / "journal.jsonl"


def silent(count):
    pass


def test_a_manifest_and_its_way_through_a_file(folder, journal, tmp_path):
    read = []
    made = make_manifest(folder, journal, read.append)
    assert list(made.files) == ["a.bin", "empty", "link.bin", "sub/b.bin"]
    assert made.files["sub/b.bin"].sha256 == "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"
    assert sum(read) == made.total == sum(list_files(folder).values())
    (tmp_path / "m.json").write_text(made.text())
    assert read_manifest(tmp_path / "m.json") == made
    assert verify(folder, made, journal, silent) == []
    assert not journal.exists()


def test_differences_are_named(folder, journal):
    made = make_manifest(folder, journal, silent)
    (folder / "a.bin").write_bytes(b"a" * (BLOCK + 9) + b"x")
    (folder / "empty").write_bytes(b"1")
    (folder / "sub" / "b.bin").unlink()
    (folder / "new").write_bytes(b"n")
    found = verify(folder, made, journal, silent)
    assert [(difference.name, difference.kind) for difference in found] == [
        ("a.bin", "hash"),
        ("empty", "size"),
        ("link.bin", "hash"),
        ("sub/b.bin", "missing"),
        ("new", "extra"),
    ]


def test_an_interrupted_run_goes_on(folder, journal):
    made = make_manifest(folder, journal, silent)

    def interrupt(count):
        if journal.exists() and journal.stat().st_size:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify(folder, made, journal, interrupt)
    done = [json.loads(line)[0] for line in journal.read_text().splitlines()]
    assert done
    for name in done:  # what the journal holds is not read again; a changed file is
        stamp = (folder / name).stat()
        (folder / name).write_bytes(b"?" * stamp.st_size)
        os.utime(folder / name, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    journal.write_text(journal.read_text() + '["half a li')
    kept = {difference.name for difference in verify(folder, made, journal, silent)}
    assert not kept & {name for name in done if not (folder / name).is_symlink() and name != "a.bin"}
    assert not journal.exists()


def test_the_journal_is_not_believed_for_a_changed_file(folder, journal):
    made = make_manifest(folder, journal, silent)
    journal.write_text(json.dumps(["sub/b.bin", 1, 5, 5, made.files["sub/b.bin"].sha256]) + "\n")
    (folder / "sub" / "b.bin").write_bytes(b"x")
    assert [difference.name for difference in verify(folder, made, journal, silent)] == ["sub/b.bin"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"schema": "kit.manifest/2", "files": {}}',
        '{"schema": "kit.manifest/1", "files": {"a": {"bytes": -1, "sha256": "0"}}}',
        '{"schema": "kit.manifest/1", "files": {"a": {"bytes": 1}}}',
    ],
)
def test_what_is_no_manifest(tmp_path, text):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(IntegrityError, match="no manifest"):
        read_manifest(tmp_path / "m.json")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "", "a\0b"])
def test_names_that_lead_out_of_the_folder(tmp_path, name):
    manifest = Manifest(files={name: {"bytes": 1, "sha256": "0" * 64}})
    (tmp_path / "m.json").write_text(manifest.text())
    with pytest.raises(IntegrityError, match="outside the folder"):
        read_manifest(tmp_path / "m.json")


def test_what_is_not_there(tmp_path, journal):
    with pytest.raises(MissingError, match="cannot read"):
        read_manifest(tmp_path / "absent.json")
    with pytest.raises(MissingError, match="cannot read"):
        make_manifest(tmp_path / "absent", journal, silent)
