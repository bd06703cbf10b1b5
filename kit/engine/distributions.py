"""Which packages make an engine on this machine: decides from /etc/os-release and distributions.toml."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path(__file__).with_name("distributions.toml")


@dataclass(frozen=True)
class Distribution:
    """One entry of distributions.toml, for the machine it was chosen for."""

    id: str
    codename: str
    newer: str | None
    from_newer: tuple[str, ...]
    from_host: tuple[str, ...]


def release_names() -> tuple[str, bool]:
    """This machine's release codename, and whether it is Debian itself."""
    try:
        facts = _facts(Path("/etc/os-release").read_text())
    except OSError:
        return "", False
    return facts.get("VERSION_CODENAME", ""), facts.get("ID") == "debian"


def choose(os_release: str) -> Distribution | None:
    """The entry for a machine whose /etc/os-release reads `os_release`; None where there is none."""
    facts = _facts(os_release)
    names = [facts.get("ID", ""), *facts.get("ID_LIKE", "").split()]
    for entry in tomllib.loads(_TABLE.read_text())["distribution"]:
        codename = facts.get("VERSION_CODENAME", "")
        if entry["os"] == "ubuntu":  # derivatives name their own release and Ubuntu's
            codename = facts.get("UBUNTU_CODENAME", codename)
        if entry["os"] in names and codename in entry.get("codenames", [codename]):
            return Distribution(
                id=entry["id"],
                codename=codename,
                newer=entry.get("newer"),
                from_newer=tuple(entry.get("from_newer", ())),
                from_host=tuple(entry["from_host"]),
            )
    return None


def sources_of(suite: str, *, instead_of: str, sources: dict[str, str]) -> str:
    """An apt deb822 source list for `suite`, from the machine's own lists (file name -> text).

    Only entries of the `instead_of` suite with the component `main` count, so that other
    vendors' archives are left out; mirrors, proxies and keys stay as the machine has them.
    Empty when the machine has no such entry.
    """
    found = []
    for name, text in sorted(sources.items()):
        stanzas = _deb822(text) if name.endswith(".sources") else _one_line(text)
        for stanza in stanzas:
            wanted = [s for s in stanza.get("suites", "").split() if s in (instead_of, f"{instead_of}-security")]
            wanted += [s for s in stanza.get("suites", "").split() if s == f"{instead_of}-updates"]
            if "main" not in stanza.get("components", "").split() or not wanted:
                continue
            if "deb" not in stanza.get("types", "").split() or stanza.get("enabled", "yes").lower() == "no":
                continue
            suites = " ".join(suite + s.removeprefix(instead_of) for s in wanted)
            lines = ["Types: deb", f"URIs: {stanza['uris']}", f"Suites: {suites}", "Components: main"]
            lines += [f"{key.title()}: {stanza[key]}" for key in ("signed-by", "trusted") if key in stanza]
            found.append("\n".join(lines) + "\n")
    return "\n".join(found)


def _facts(os_release: str) -> dict[str, str]:
    return dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)"?$', os_release))


def _deb822(text: str) -> list[dict[str, str]]:
    stanzas = []
    for block in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n?", "", text)):
        fields = re.findall(r"(?m)^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t]+.*)*)", block)
        if fields:
            stanzas.append({key.lower(): value.strip() for key, value in fields})
    return stanzas


def _one_line(text: str) -> list[dict[str, str]]:
    stanzas = []
    for line in text.splitlines():
        match = re.match(r"deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+([^#]+)", line.strip())
        if match:
            options, uri, suite, components = match.groups()
            stanza = {"types": "deb", "uris": uri, "suites": suite, "components": components}
            for option in (options or "").split():
                key, _, value = option.partition("=")
                stanza[key.lower()] = value
            stanzas.append(stanza)
    return stanzas
