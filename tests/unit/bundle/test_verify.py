"""A bundle is what was signed, to the last bit, or it is refused with the reason."""

from __future__ import annotations

import random
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kit.bundle import keys, names
from kit.bundle.stored import open_bundle
from kit.bundle.verify import Verified, verify
from kit.errors import IntegrityError, MissingError

NOW = datetime(2026, 11, 29, tzinfo=UTC)
SCRIPT = Path(__file__).parents[3] / "kit" / "bundle" / "shell" / "verify.sh"
MIB = 1 << 20


def check(path: Path, key_files: Path, key: str = "kit.pub", now: datetime = NOW) -> Verified:
    return verify(open_bundle(path), keys.load_trusted(key_files / key), now=now)


def by_shell(path: Path, key: Path) -> int:
    return subprocess.run(["sh", str(SCRIPT), str(key), str(path)], capture_output=True).returncode


@pytest.mark.parametrize("form", ["folder", "file"])
@pytest.mark.parametrize("chunk", [None, MIB])
def test_good(pack, key_files, form, chunk):
    path = pack(form=form, chunk=chunk)
    done = check(path, key_files)
    assert done.manifest.release == path.name.removesuffix(".tar")
    assert done.key.fingerprint == keys.load_trusted(key_files / "allowed_signers")[0].fingerprint
    assert set(done.sums) == done.bundle.files.keys() - names.OUTSIDE_SUMS
    with done.bundle.open(names.IMAGE) as image:
        assert image.read(4) == b"\x28\xb5\x2f\xfd"


def test_two_packs_are_equal_and_name_nobody(pack):
    one, two = pack("a"), pack("b/c")
    assert one.name == two.name
    assert subprocess.run(["diff", "-r", one, two]).returncode == 0
    one, two = pack("a", "file"), pack("b/c", "file")
    assert one.read_bytes() == two.read_bytes()
    listing = subprocess.run(["tar", "-tvf", one], capture_output=True, text=True, check=True).stdout.splitlines()
    assert {line.split()[1] for line in listing} == {"0/0"}
    assert {" ".join(line.split()[3:5]) for line in listing} == {"1980-01-01 00:00"}


def test_parts_are_no_larger_than_the_limit(pack):
    folder = pack(chunk=MIB)
    parts = sorted((folder / "image").iterdir())
    assert [p.name for p in parts] == [f"image.tar.zst.{n:03d}" for n in range(len(parts))]
    assert max(p.stat().st_size for p in folder.rglob("*") if p.is_file()) <= MIB
    whole = pack("w")
    assert b"".join(p.read_bytes() for p in parts) == (whole / names.IMAGE).read_bytes()
    assert folder.name == whole.name  # how it was split makes no other release


def test_plain_tools_agree(pack, key_files):
    folder = pack(chunk=MIB)
    assert subprocess.run(["sha256sum", "-c", "--strict", "--quiet", "SHA256SUMS"], cwd=folder).returncode == 0
    assert by_shell(folder, key_files / "kit.pub") == 0
    assert by_shell(folder, key_files / "allowed_signers") == 0
    archive = pack("f", "file")
    subprocess.run(["tar", "-xf", archive], cwd=archive.parent, check=True)
    assert subprocess.run(["diff", "-r", archive.with_suffix(""), pack("g")]).returncode == 0


def flip(path: Path, at: int, bit: int) -> None:
    with path.open("r+b") as handle:
        handle.seek(at)
        byte = handle.read(1)[0]
        handle.seek(at)
        handle.write(bytes([byte ^ (1 << bit)]))


def test_one_flipped_bit_in_any_file(pack, key_files):
    folder = pack(chunk=MIB)
    pick = random.Random(6)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        at, bit = pick.randrange(path.stat().st_size), pick.randrange(8)
        flip(path, at, bit)
        with pytest.raises(IntegrityError):
            check(folder, key_files)
        if path.name != names.SSH_SIGNATURE:
            assert by_shell(folder, key_files / "kit.pub") != 0, path
        if path.name != names.SIGNATURE:
            assert by_shell(folder, key_files / "allowed_signers") != 0, path
        flip(path, at, bit)
    check(folder, key_files)


def test_any_flipped_bit_of_an_archive(pack, key_files):
    path = pack(form="file", files={"verify.sh": b"#!/bin/sh\n"})
    pick = random.Random(7)
    size = path.stat().st_size
    headers = [at for at in range(0, size, 512)]
    for at in [
        *(pick.choice(headers) + pick.randrange(512) for _ in range(150)),
        *range(0, 512, 3),
        size - 1,
        size - 600,
    ]:
        bit = pick.randrange(8)
        flip(path, at, bit)
        with pytest.raises(IntegrityError):
            check(path, key_files)
        flip(path, at, bit)
    check(path, key_files)


def test_both_hashes_are_told(pack, key_files):
    folder = pack()
    (folder / "deployment/kit.yaml").write_text("schema: kit/2\n")
    with pytest.raises(IntegrityError) as caught:
        check(folder, key_files)
    (line,) = caught.value.evidence
    assert line.startswith("deployment/kit.yaml: SHA-256 is ") and ", signed was " in line


@pytest.mark.parametrize("where", ["extra.txt", "deployment/extra.yaml", "image/image.tar.zst.000", "new/thing"])
def test_extra_file(pack, key_files, where):
    folder = pack()
    (folder / where).parent.mkdir(exist_ok=True)
    (folder / where).write_text("x")
    with pytest.raises(IntegrityError) as caught:
        check(folder, key_files)
    assert f"not in SHA256SUMS: {where}" in caught.value.evidence
    assert by_shell(folder, key_files / "kit.pub") != 0


@pytest.mark.parametrize(
    "name", ["bundle.json", "image/image.tar.zst", "SHA256SUMS", "SHA256SUMS.sig", "SHA256SUMS.sshsig"]
)
def test_missing_file(pack, key_files, name):
    folder = pack()
    (folder / name).unlink()
    with pytest.raises(IntegrityError):
        check(folder, key_files)
    if name != "SHA256SUMS.sshsig":
        assert by_shell(folder, key_files / "kit.pub") != 0


@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("form", ["folder", "file"])
def test_missing_part(pack, key_files, number, form):
    path = pack(form=form, chunk=MIB)
    found = sorted(path.parent.glob("*.tar.0*") if form == "file" else (path / "image").iterdir())
    assert len(found) > 2
    found[number].unlink()
    with pytest.raises((IntegrityError, MissingError)):
        check(path, key_files)


def test_links_and_special_files(pack, key_files, tmp_path):
    folder = pack()
    target = folder / "deployment/kit.yaml"
    shutil.copy(target, tmp_path / "same")
    target.unlink()
    target.symlink_to(tmp_path / "same")  # right content, but it can change after the check
    with pytest.raises(IntegrityError, match="no bundle may hold"):
        check(folder, key_files)
    assert by_shell(folder, key_files / "kit.pub") == 6
    target.unlink()
    shutil.copytree(folder, tmp_path / "pipe")
    import os

    os.mkfifo(tmp_path / "pipe" / "deployment/kit.yaml")
    with pytest.raises(IntegrityError, match="no bundle may hold"):
        check(tmp_path / "pipe", key_files)


def test_wrong_key_and_no_signature(pack, key_files, tmp_path):
    other = tmp_path / "other.pub"
    made = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519"], capture_output=True, check=True).stdout
    other.write_bytes(
        subprocess.run(["openssl", "pkey", "-pubout"], input=made, capture_output=True, check=True).stdout
    )
    folder = pack()
    with pytest.raises(IntegrityError, match="not signed by a key you trust"):
        check(folder, tmp_path, "other.pub")
    assert by_shell(folder, other) != 0
    unsigned = pack("u", signed=False)
    with pytest.raises(IntegrityError, match="is not signed"):
        check(unsigned, key_files)
    assert verify(open_bundle(unsigned), None, now=NOW).key is None


def test_signatures_of_another_bundle(pack, key_files):
    one, two = pack("a"), pack("b", files={"verify.sh": b"#!/bin/sh\nexit 0\n"})
    for name in (names.SIGNATURE, names.SSH_SIGNATURE):
        own = (one / name).read_bytes()
        shutil.copy(two / name, one / name)
        with pytest.raises(IntegrityError):
            check(one, key_files)
        (one / name).write_bytes(own)


def test_expiry(pack, key_files, tmp_path):
    folder = pack(expires="2026-12-01")
    check(folder, key_files, now=datetime(2026, 11, 30, 23, 59, tzinfo=UTC))
    with pytest.raises(IntegrityError, match="expired on 2026-12-01"):
        check(folder, key_files, now=datetime(2026, 12, 1, tzinfo=UTC))
    assert by_shell(pack("old", expires="2020-01-01"), key_files / "kit.pub") == 6
    assert by_shell(pack("new", expires="2999-01-01"), key_files / "kit.pub") == 0
    signer = (key_files / "allowed_signers").read_text()
    (tmp_path / "dated").write_text(signer.replace('kit-bundle"', 'kit-bundle",valid-before="20261101"'))
    with pytest.raises(IntegrityError, match="expired on 2026-11-01"):
        check(folder, tmp_path, "dated")
    (tmp_path / "dated").write_text(signer.replace('kit-bundle"', 'kit-bundle",valid-after="20270101"'))
    with pytest.raises(IntegrityError, match="good only from 2027-01-01"):
        check(folder, tmp_path, "dated")
