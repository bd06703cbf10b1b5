"""Rewrites a tar so that its bytes follow from its content: order, times, owners by number, no device nodes."""

from __future__ import annotations

import copy
import tarfile
from pathlib import Path
from typing import IO

# What apt and dpkg leave behind.
LEFT_OUT = ("etc/apt/", "var/lib/apt/", "var/cache/apt/", "etc/dpkg/dpkg.cfg.d/99mmdebstrap")


def normalize(source: Path, to: IO[bytes], epoch: int) -> None:
    """Write the tar `source` to `to`: sorted by name, files not younger than `epoch` (seconds),
    folders of that age, owner names left out."""
    with tarfile.open(source) as old, tarfile.open(fileobj=to, mode="w", format=tarfile.GNU_FORMAT) as new:
        members = {name: member for member in old if (name := _name(member)) and not _left_out(name)}
        first_of: dict[str, str] = {}  # a hard link must follow the file that it names
        for name in sorted(members):
            target = _clean(members[name].linkname) if members[name].islnk() else name
            member = copy.copy(members[target])
            # a folder's time tells in which order the bootstrap unpacked, which is nobody's input
            member.mtime = epoch if member.isdir() else min(int(member.mtime), epoch)
            member.uname = member.gname = ""
            member.pax_headers = {}
            member.name = name
            content: IO[bytes] | None = None
            if member.isreg() and target in first_of:
                member.type, member.linkname, member.size = tarfile.LNKTYPE, first_of[target], 0
            elif member.isreg():
                first_of[target] = name
                content = old.extractfile(members[target])
            new.addfile(member, content)


def _left_out(name: str) -> bool:
    # container runtimes make the device nodes, but /dev must be there: one made by a build step has its time
    return name.startswith(LEFT_OUT) or (name.startswith("dev/") and name != "dev/")


def _name(member: tarfile.TarInfo) -> str:
    name = _clean(member.name)
    return f"{name}/" if member.isdir() and name else name


def _clean(name: str) -> str:
    return name.removeprefix("./").strip("/") if name != "." else ""
