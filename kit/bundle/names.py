"""Which file names a bundle may hold, and the names with a meaning; pure.

The rule is narrow on purpose: such a name is itself in a shell, in `sha256sum -c`, in a tar and on
FAT, and cannot lead out of the folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"  # 64 raw bytes of ed25519, as OpenSSL reads them
SSH_SIGNATURE = "SHA256SUMS.sshsig"  # the same key's signature as OpenSSH reads it
MANIFEST = "bundle.json"
IMAGE = "image/image.tar.zst"
OUTSIDE_SUMS = frozenset({SUMS, SIGNATURE, SSH_SIGNATURE})
MAX_LENGTH = 200

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+~%=@!,-]*(?:/[A-Za-z0-9_][A-Za-z0-9._+~%=@!,-]*)*")
_PART = re.compile(r"(.+)\.(\d{3})")


def fault(name: str) -> str | None:
    """Why a bundle may not hold a file of this name; None when it may."""
    if len(name) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH} characters"
    if name.startswith("/") or ".." in name.split("/"):
        return "leads out of the bundle"
    if not _NAME.fullmatch(name):
        return "holds characters that a bundle's names may not have"
    return None


def clashes(names: Iterable[str]) -> list[str]:
    """Names that a file system without upper and lower case could not tell apart."""
    seen: dict[str, str] = {}
    return [f"{name} and {seen[key]}" for name in names if seen.setdefault(key := name.casefold(), name) != name]


def executable(name: str) -> bool:
    """Whether a file of this name is a program."""
    return name.endswith(".sh") or name == "rendered/healthcheck.py"


def part(base: str, number: int) -> str:
    """The name of one part of a file that was split for media with a size limit."""
    return f"{base}.{number:03d}"


def split_part(name: str) -> tuple[str, int] | None:
    """(base, number) of a part's name; None for a name that is not one."""
    match = _PART.fullmatch(name)
    return (match[1], int(match[2])) if match else None
