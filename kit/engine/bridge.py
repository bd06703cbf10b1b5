"""A network bridge of our own, so that a private engine never shares `docker0` with another engine.

Made with the kernel's bridge ioctls (linux/sockios.h): no program of the machine is needed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import socket
import struct
from pathlib import Path

from kit.errors import MissingError

_SIOCBRADDBR = 0x89A0
_SIOCBRDELBR = 0x89A1
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_IFREQ = "16sH22x"  # struct ifreq: name, flags, and the rest of its 40 bytes


def name_for(home: Path) -> str:
    """The bridge's name for one KIT_HOME: 15 characters is the kernel's limit."""
    return "kit-" + hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:8]


def ensure(name: str) -> None:
    """Make the bridge unless it is there. Raises MissingError when the kernel or a permission refuses."""
    if exists(name):
        return
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as handle:
            fcntl.ioctl(handle, _SIOCBRADDBR, name.encode() + b"\0")
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise MissingError(
                f"cannot make the network bridge {name}: {error.strerror}",
                hint="a private engine needs root (CAP_NET_ADMIN) and a kernel with bridge support (modprobe bridge)",
            ) from None


def remove(name: str) -> None:
    """Take the bridge away, if it is there."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as handle:
        request = struct.pack(_IFREQ, name.encode(), 0)
        flags = struct.unpack(_IFREQ, fcntl.ioctl(handle, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(handle, _SIOCSIFFLAGS, struct.pack(_IFREQ, name.encode(), flags & ~_IFF_UP))
        fcntl.ioctl(handle, _SIOCBRDELBR, name.encode() + b"\0")


def exists(name: str) -> bool:
    """Whether an interface of that name is there, in the network namespace that this process is in."""
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True
