"""An apt that reaches a Debian suite from this machine, whatever the machine itself runs."""

from __future__ import annotations

import os
from pathlib import Path

from kit import proc
from kit.engine import apt
from kit.engine.apt import Apt
from kit.engine.distributions import release_names, sources_of
from kit.errors import MissingError

MIRROR = "KIT_DEBIAN_MIRROR"
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def debian(suite: str, folder: Path, *, signed: bool) -> Apt:
    """An Apt for Debian's `suite`, lists fetched, its state below `folder`.

    The mirror is KIT_DEBIAN_MIRROR, else the one that this machine's apt uses for Debian, else the
    one that mmdebstrap would. `signed` asks for signed lists (for choosing versions); files fetched
    by their locked hash do not need that. Raises MissingError without apt or without a mirror.
    """
    if not apt.available():
        raise MissingError(
            "Debian packages are fetched and unpacked with apt and dpkg, which this machine lacks",
            hint="run this on Debian or Ubuntu and carry the result over: kit fetch --vendor DIR",
        )
    folder.mkdir(parents=True, exist_ok=True)
    text = _named(suite) or _from_machine(suite) or _from_mmdebstrap(suite, folder)
    if not signed:
        text = text.replace("Types: deb\n", "Types: deb\nTrusted: yes\n")
    listed = folder / f"{suite}.sources"
    listed.write_text(text)
    made = Apt(folder, listed)
    made.update()
    return made


def _named(suite: str) -> str:
    address = os.environ.get(MIRROR, "")
    return _stanza(address, f"{suite} {suite}-updates") if address else ""


def _from_machine(suite: str) -> str:
    codename, is_debian = release_names()
    return sources_of(suite, instead_of=codename, sources=apt.machine_sources()) if is_debian else ""


def _from_mmdebstrap(suite: str, folder: Path) -> str:
    """The sources that mmdebstrap writes when it is given none: read in its first hook, which then stops it."""
    found = folder / "mmdebstrap.list"
    tool, env = apt.program("mmdebstrap", folder)
    hook = f'cat "$1/etc/apt/sources.list" "$1"/etc/apt/sources.list.d/* > {found} 2>/dev/null; exit 1'
    proc.run(
        [tool, "--mode=root", "--variant=custom", f"--setup-hook={hook}", suite, "/dev/null"], env=env, check=False
    )
    sources = {str(found): found.read_text() if found.exists() else ""}
    text = sources_of(suite, instead_of=suite, sources=sources)
    if not text:
        raise MissingError(f"no Debian mirror with {suite} is known here", hint=f"put the address of one into {MIRROR}")
    return text


def _stanza(address: str, suites: str) -> str:
    keys = f"Signed-By: {_KEYS}\n" if Path(_KEYS).exists() else ""
    return f"Types: deb\nURIs: {address}\nSuites: {suites}\nComponents: main\n{keys}"
