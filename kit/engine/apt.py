"""apt as a downloader: its own lists and cache in a folder of ours, nothing installed on the machine.

The machine's sources, proxies and keys are used as they are configured.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kit import proc
from kit.engine.distributions import sources_of
from kit.errors import MissingError

_HINT = "check the machine's apt sources and network (apt-get update), then run this again"


@dataclass(frozen=True)
class Apt:
    """apt-get with its state below `folder`; `sources` replaces the machine's source lists where given."""

    folder: Path
    sources: Path | None = None

    def _run(self, tool: str, *args: str, cwd: Path | None = None, check: bool = True) -> proc.Done:
        options = {
            "Dir::State::Lists": self.folder / "lists",
            "Dir::Cache": self.folder / "cache",
            "Dir::State::extended_states": self.folder / "extended_states",
            "Dir::State::status": self.folder / "status",  # empty: what this machine has installed does not count
            "APT::Sandbox::User": "root",
            "Acquire::Retries": "3",
            "Debug::NoLocking": "true",
        }
        if self.sources:
            options |= {"Dir::Etc::sourcelist": self.sources, "Dir::Etc::sourceparts": "-"}
        command = [tool, "-q", *(f"-o{key}={value}" for key, value in options.items()), *args]
        return proc.run(command, cwd=cwd, env={"LC_ALL": "C"}, check=check, hint=_HINT)

    def update(self) -> None:
        """Fetch the package lists. Raises MissingError when none can be had."""
        for part in ("lists/partial", "cache/archives/partial"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        done = self._run("apt-get", "update", check=False)
        if not any((self.folder / "lists").glob("*_Packages*")):
            said = [line for line in (done.err + done.out).splitlines() if line.startswith(("E:", "W:", "Err:"))]
            raise MissingError("the Debian archive is out of reach", hint=_HINT, evidence=said[-4:])

    def missing(self, names: Iterable[str]) -> list[str]:
        """`names` and every package they need that this machine has not installed."""
        wanted = list(names)
        return sorted({*wanted, *self.closure(wanted, Path("/var/lib/dpkg/status"))})

    def query(self, *args: str) -> str:
        """What `apt-cache` answers."""
        return self._run("apt-cache", *args).out

    def closure(self, names: Iterable[str], status: Path | None = None) -> dict[str, str]:
        """Name -> version of everything that `names` need on a machine whose dpkg status is `status` (None: empty).

        Raises MissingError when the archive lacks one of them.
        """
        options = [f"-oDir::State::status={status}"] if status else []
        install = ["--simulate", "--no-install-recommends", *options, "install", *names]
        done = self._run("apt-get", *install, check=False)
        if done.code != 0:
            said = [line for line in (done.err + done.out).splitlines() if line.strip()]
            raise MissingError("the Debian archive in reach lacks packages", hint=_HINT, evidence=said[-6:])
        lines = [line.split() for line in done.out.splitlines() if line.startswith("Inst ")]
        return {fields[1]: fields[2].lstrip("(") for fields in lines}

    def download(self, names: Iterable[str], to: Path) -> None:
        """Fetch the packages as .deb files into `to`, checked by apt against the signed lists."""
        to.mkdir(parents=True, exist_ok=True)
        done = self._run("apt-get", "download", *names, cwd=to, check=False)
        if done.code != 0:
            said = [line for line in (done.err + done.out).splitlines() if line.startswith(("E:", "W:", "Err:"))]
            raise MissingError("Debian packages could not be fetched", hint=_HINT, evidence=said[-6:])


def newer_suite(folder: Path, suite: str, codename: str) -> Apt:
    """An Apt for `suite`, reached through the mirrors this machine uses for `codename`."""
    text = sources_of(suite, instead_of=codename, sources=machine_sources())
    if not text:
        raise MissingError(
            f"no apt source of {codename} with the component main, so none of {suite} can be derived",
            hint="add the distribution's own archive to /etc/apt/sources.list.d",
        )
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / f"{suite}.sources"
    listed.write_text(text)
    return Apt(folder, listed)


def machine_sources() -> dict[str, str]:
    """The machine's apt source lists: file name -> text."""
    etc = Path("/etc/apt")
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    return {str(f): f.read_text(errors="replace") for f in files if f.suffix in (".list", ".sources") and f.is_file()}


def program(name: str, folder: Path) -> tuple[Path, dict[str, str]]:
    """A program that is installed, or one unpacked below `folder` from the package of its name; and what it needs
    in its environment, where it is a Perl program whose modules were unpacked beside it."""
    if installed := shutil.which(name):
        return Path(installed), {}
    if not available():
        raise MissingError(f"the program {name} is not installed", hint=f"install {name} (a package of Debian)")
    source, root = Apt(folder / "apt"), folder / "unpacked"
    try:
        source.update()
        source.download(source.missing([name]), folder / "tools")
    except MissingError as error:
        raise MissingError(
            f"the program {name} is not installed, and apt cannot fetch it: {error.message}",
            hint=f"apt-get install {name} where there is a network; then this needs none",
            evidence=error.evidence,
        ) from None
    unpack(folder / "tools", root)
    modules = [*root.glob("usr/share/perl*"), *root.glob("usr/share/perl/*"), *root.glob("usr/lib/*/perl*/*")]
    libraries = list(root.glob("usr/lib/*-linux-gnu"))
    env = {"PERL5LIB": modules, "LD_LIBRARY_PATH": libraries if modules else []}
    return root / "usr" / "bin" / name, {k: ":".join(map(str, v)) for k, v in env.items() if v}


def unpack(packages: Path, into: Path) -> dict[str, str]:
    """Unpack every .deb below `packages` into `into`; returns package name -> version."""
    versions = {}
    for deb in sorted(packages.glob("*.deb")):
        proc.run(["dpkg-deb", "-x", deb, into])
        fields = proc.run(["dpkg-deb", "-f", deb, "Package", "Version"]).out
        named = dict(line.split(": ", 1) for line in fields.splitlines())
        versions[named["Package"]] = named["Version"]
    return versions


def available() -> bool:
    """Whether this machine has apt and dpkg."""
    return bool(shutil.which("apt-get") and shutil.which("dpkg-deb"))
