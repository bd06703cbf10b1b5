"""ed25519 keys from files, and signatures that OpenSSL or OpenSSH alone can check. The kit never makes a key."""

from __future__ import annotations

import base64
import hashlib
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kit.errors import IntegrityError, MissingError, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NAMESPACE = "kit-bundle"  # `ssh-keygen -Y verify -n`: a signature made for another purpose does not count
HOW_TO_MAKE = "openssl genpkey -algorithm ed25519 -out kit.key; openssl pkey -in kit.key -pubout -out kit.pub"
_MAX_KEY_FILE = 1 << 16


@dataclass(frozen=True)
class TrustedKey:
    """A public key that a person trusts: 32 raw bytes, and the days (YYYY-MM-DD, UTC) it is good for."""

    raw: bytes
    valid_after: str | None = None
    valid_before: str | None = None

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.raw)


def fingerprint(raw: bytes) -> str:
    """A public key's fingerprint as `ssh-keygen -l` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(_ssh_public(raw)).digest()).decode().rstrip("=")


def load_private(path: Path, passphrase: Callable[[], bytes]) -> Ed25519PrivateKey:
    """The private key in `path` (PEM of OpenSSL or OpenSSH); `passphrase` is asked only where the key needs it.

    Raises MissingError, UsageError (no ed25519 key, wrong passphrase, readable by other users).
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    data = _read(path, "signing key")
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(f"other users of this machine can read the signing key {path}", hint=f"chmod 600 {path}")
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in data else load_pem_private_key
    try:
        try:
            key = load(data, None)
        except TypeError:  # encrypted
            key = load(data, passphrase())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path} is no private key that can be used: {error}", hint=HOW_TO_MAKE) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path} is not an ed25519 key", hint=HOW_TO_MAKE)
    return key


def raw_public(key: Ed25519PrivateKey) -> bytes:
    """The 32 bytes of a private key's public half."""
    return key.public_key().public_bytes_raw()


def load_trusted(path: Path) -> list[TrustedKey]:
    """The public keys in `path`: PEM, `ssh-ed25519 ...` lines, or an OpenSSH allowed_signers file.

    Raises MissingError and UsageError.
    """
    text = _read(path, "public key").decode("utf-8", "replace")
    if "PRIVATE KEY" in text:
        raise UsageError(
            f"{path} holds a private key; verifying needs the public one", hint="openssl pkey -in KEY -pubout"
        )
    if "BEGIN PUBLIC KEY" in text:
        return [TrustedKey(_pem_public(path, text))]
    keys = [_ssh_line(path, number, line) for number, line in enumerate(text.splitlines(), 1) if _holds_key(line)]
    if not keys:
        raise UsageError(f"{path} holds no public key", hint=f"keys are made with: {HOW_TO_MAKE}")
    return keys


def sign(key: Ed25519PrivateKey, message: bytes) -> tuple[bytes, bytes]:
    """The signature of `message` twice: raw for OpenSSL, and in OpenSSH's armour (PROTOCOL.sshsig)."""
    raw = raw_public(key)
    parts = [b"SSHSIG", (1).to_bytes(4, "big"), _string(_ssh_public(raw)), *_ssh_context()]
    blob = b"".join([*parts, _string(_string(b"ssh-ed25519") + _string(key.sign(_ssh_message(message))))])
    text = base64.b64encode(blob).decode()
    lines = [text[i : i + 70] for i in range(0, len(text), 70)]
    armour = "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])
    return key.sign(message), armour.encode()


def check(
    message: bytes, signature: bytes, ssh_signature: bytes, trusted: list[TrustedKey], now: datetime
) -> TrustedKey:
    """The trusted key that made both signatures of `message`, if it is good at `now`.

    Raises IntegrityError: signed by none of the keys, or by one whose time has not come or is over.
    """
    for key in trusted:
        if not _made(key.raw, message, signature):
            continue
        if _armoured(ssh_signature) is None or not _made_ssh(key.raw, message, ssh_signature):
            raise IntegrityError("the OpenSSH signature does not belong to this bundle", hint=_SIGNER_HINT)
        today = now.astimezone(UTC).strftime("%Y-%m-%d")
        if key.valid_before and today >= key.valid_before:
            raise IntegrityError(f"the key {key.fingerprint} expired on {key.valid_before}", hint=_SIGNER_HINT)
        if key.valid_after and today < key.valid_after:
            raise IntegrityError(f"the key {key.fingerprint} is good only from {key.valid_after}", hint=_SIGNER_HINT)
        return key
    raise IntegrityError(
        "the bundle is not signed by a key you trust",
        evidence=[f"trusted: {key.fingerprint}" for key in trusted],
        hint=_SIGNER_HINT,
    )


_SIGNER_HINT = "do not install it; ask the sender for the bundle again, and for the key by another way"


def _armoured(data: bytes) -> bytes | None:
    """The bytes inside OpenSSH's armour; None when it is none."""
    match = re.fullmatch(rb"-----BEGIN SSH SIGNATURE-----\n([A-Za-z0-9+/=\n]+)-----END SSH SIGNATURE-----\n", data)
    try:
        return base64.b64decode(match[1]) if match else None
    except ValueError:
        return None


def _made(raw: bytes, message: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _made_ssh(raw: bytes, message: bytes, armour: bytes) -> bool:
    blob = _armoured(armour) or b""
    head = b"".join([b"SSHSIG", (1).to_bytes(4, "big"), _string(_ssh_public(raw)), *_ssh_context()])
    inner = _string(b"ssh-ed25519") + (64).to_bytes(4, "big")
    start = head + len(inner + bytes(64)).to_bytes(4, "big") + inner
    return blob.startswith(start) and len(blob) == len(start) + 64 and _made(raw, _ssh_message(message), blob[-64:])


def _ssh_message(message: bytes) -> bytes:
    return b"".join([b"SSHSIG", *_ssh_context(), _string(hashlib.sha512(message).digest())])


def _ssh_context() -> tuple[bytes, bytes, bytes]:
    return _string(NAMESPACE.encode()), _string(b""), _string(b"sha512")


def _ssh_public(raw: bytes) -> bytes:
    return _string(b"ssh-ed25519") + _string(raw)


def _string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _pem_public(path: Path, text: str) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path} is no public key: {error}", hint=f"keys are made with: {HOW_TO_MAKE}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"{path} is not an ed25519 key", hint=f"keys are made with: {HOW_TO_MAKE}")
    return key.public_bytes_raw()


_SSH_KEY = re.compile(r"(?:^|\s)ssh-ed25519\s+([A-Za-z0-9+/=]+)")
_OPTION = re.compile(r'\b(valid-after|valid-before|namespaces)=(?:"([^"]*)"|([^",\s]+))')


def _holds_key(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def _ssh_line(path: Path, number: int, line: str) -> TrustedKey:
    match = _SSH_KEY.search(line)
    try:
        blob = base64.b64decode(match[1]) if match else b""
    except ValueError:
        blob = b""
    raw = blob[-32:]
    if match is None or blob != _ssh_public(raw):
        raise UsageError(f"{path}:{number}: not an ssh-ed25519 public key", hint="ssh-keygen -t ed25519 makes one")
    options = {name: quoted or bare for name, quoted, bare in _OPTION.findall(line[: match.start()])}
    dates = {}
    for name in ("valid-after", "valid-before"):
        day = re.fullmatch(r"(\d{4})(\d\d)(\d\d)(\d{4,6})?Z?", options[name]) if name in options else None
        if name in options and day is None:
            raise UsageError(f"{path}:{number}: {name} must be a date, YYYYMMDD", evidence=[line[:200]])
        dates[name] = f"{day[1]}-{day[2]}-{day[3]}" if day else None
    if NAMESPACE not in options.get("namespaces", NAMESPACE).split(","):
        raise UsageError(f"{path}:{number}: this key is not for {NAMESPACE}", evidence=[line[:200]])
    return TrustedKey(raw, dates["valid-after"], dates["valid-before"])


def _read(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as handle:
            return handle.read(_MAX_KEY_FILE)
    except OSError as error:
        raise MissingError(f"cannot read the {what} {path}: {error.strerror}", hint=f"ls -l {path}") from None
