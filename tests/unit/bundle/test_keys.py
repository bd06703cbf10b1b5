"""Keys and signatures: what the kit signs, OpenSSL and OpenSSH check, and the other way round."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kit.bundle import keys
from kit.errors import IntegrityError, MissingError, UsageError

NOW = datetime(2026, 11, 29, tzinfo=UTC)
MESSAGE = b"0" * 64 + b"  a\n"


def run(*command: str | Path, given: bytes | None = None, cwd: Path | None = None) -> bytes:
    return subprocess.run(list(map(str, command)), input=given, capture_output=True, check=True, cwd=cwd).stdout


def no_passphrase() -> bytes:
    raise AssertionError("asked for a passphrase")


@pytest.mark.parametrize("name", ["kit.key", "id.key"])
def test_private_keys_of_both_tools(key_files, signer, name):
    key = keys.load_private(key_files / name, no_passphrase)
    assert keys.raw_public(key) == signer.public_key().public_bytes_raw()


def test_keys_that_the_tools_made(tmp_path):
    run("openssl", "genpkey", "-algorithm", "ed25519", "-out", "a.key", cwd=tmp_path)
    run("openssl", "pkey", "-in", "a.key", "-pubout", "-out", "a.pub", cwd=tmp_path)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "b.key", cwd=tmp_path)
    shutil.move(tmp_path / "b.key.pub", tmp_path / "b.pub")
    (tmp_path / "a.key").chmod(0o600)
    for name in ("a", "b"):
        key = keys.load_private(tmp_path / f"{name}.key", no_passphrase)
        signature, armour = keys.sign(key, MESSAGE)
        trusted = keys.load_trusted(tmp_path / f"{name}.pub")
        assert keys.check(MESSAGE, signature, armour, trusted, NOW) == trusted[0]
    printed = run("ssh-keygen", "-l", "-f", tmp_path / "b.pub").decode()
    assert printed.split()[1] == trusted[0].fingerprint


def test_openssh_signs_the_same_bytes(key_files, tmp_path, signer):
    (tmp_path / "m").write_bytes(MESSAGE)
    run("ssh-keygen", "-Y", "sign", "-f", key_files / "id.key", "-n", "kit-bundle", tmp_path / "m")
    assert (tmp_path / "m.sig").read_bytes() == keys.sign(signer, MESSAGE)[1]


def test_a_key_with_a_passphrase(tmp_path):
    made = run("openssl", "genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:secret")
    (tmp_path / "k").write_bytes(made)
    (tmp_path / "k").chmod(0o600)
    keys.load_private(tmp_path / "k", lambda: b"secret")
    with pytest.raises(UsageError, match="no private key that can be used"):
        keys.load_private(tmp_path / "k", lambda: b"wrong")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_private_key_that_others_can_read(key_files, tmp_path, mode):
    shutil.copy(key_files / "kit.key", tmp_path / "k")
    (tmp_path / "k").chmod(mode)
    with pytest.raises(UsageError, match="other users") as caught:
        keys.load_private(tmp_path / "k", no_passphrase)
    assert caught.value.hint == f"chmod 600 {tmp_path / 'k'}"


def test_what_is_no_key(key_files, tmp_path):
    bad = tmp_path / "bad"
    rsa = run("openssl", "genpkey", "-algorithm", "rsa", "-pkeyopt", "rsa_keygen_bits:1024")
    for data in (b"", b"hello\n", rsa, (key_files / "kit.pub").read_bytes()):
        bad.write_bytes(data)
        bad.chmod(0o600)
        with pytest.raises(UsageError):
            keys.load_private(bad, no_passphrase)
    ssh = (key_files / "allowed_signers").read_text().split("ssh-ed25519 ")[1].strip()
    for text in (
        "",
        "# only a comment\n",
        "hello\n",
        run("openssl", "pkey", "-pubout", given=rsa).decode(),
        (key_files / "kit.key").read_text(),
        f"ssh-rsa {ssh}\n",
        f"ssh-ed25519 {ssh[:-4]}\n",
        "ssh-ed25519 AAAA\n",
        f'kit namespaces="git,file" ssh-ed25519 {ssh}\n',
        f'kit valid-before="soon" ssh-ed25519 {ssh}\n',
    ):
        bad.write_text(text)
        with pytest.raises(UsageError):
            keys.load_trusted(bad)
    for load in (keys.load_trusted, lambda path: keys.load_private(path, no_passphrase)):
        with pytest.raises(MissingError):
            load(tmp_path / "none")


def test_several_trusted_keys(key_files, tmp_path, signer):
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "other", cwd=tmp_path)
    ours = (key_files / "allowed_signers").read_text()
    (tmp_path / "all").write_text(f"# keys of the senders\nold {(tmp_path / 'other.pub').read_text()}\n{ours}")
    found = keys.check(MESSAGE, *keys.sign(signer, MESSAGE), keys.load_trusted(tmp_path / "all"), NOW)
    assert found.raw == signer.public_key().public_bytes_raw()
    with pytest.raises(IntegrityError, match="not signed by a key you trust") as caught:
        keys.check(MESSAGE + b"x", *keys.sign(signer, MESSAGE), keys.load_trusted(tmp_path / "all"), NOW)
    assert len(caught.value.evidence) == 2


def test_an_openssh_signature_for_another_purpose(key_files, tmp_path, signer):
    (tmp_path / "m").write_bytes(MESSAGE)
    run("ssh-keygen", "-Y", "sign", "-f", key_files / "id.key", "-n", "git", tmp_path / "m")
    with pytest.raises(IntegrityError, match="OpenSSH signature"):
        keys.check(
            MESSAGE,
            keys.sign(signer, MESSAGE)[0],
            (tmp_path / "m.sig").read_bytes(),
            keys.load_trusted(key_files / "kit.pub"),
            NOW,
        )
