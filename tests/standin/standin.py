"""Builds the stand-in library and turns YAML profiles into the flat files that it reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
ANCESTOR = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
P2P_OK = {"p2p_0": 0, "p2p_1": 0, "p2p_2": 5, "p2p_3": 5, "p2p_4": 0}


def build_library(folder: Path) -> Path:
    """Compile the stand-in into `folder`; returns the library's path."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(HERE / "nvml.c")], check=True
    )
    return library


def names() -> list[str]:
    """Every profile's id."""
    return sorted(path.stem for path in (HERE / "profiles").glob("*.yaml"))


def load(name: str) -> dict[str, Any]:
    """A profile with all that it extends laid under it."""
    profile = yaml.safe_load((HERE / "profiles" / f"{name}.yaml").read_text())
    base = profile.pop("extends", None)
    return merged(load(base), profile) if base else profile


def card(name: str) -> dict[str, Any]:
    """What a sound card of this kind answers."""
    answers = dict(yaml.safe_load((HERE / "cards.yaml").read_text())[name])
    base = answers.pop("extends", None)
    return merged(card(base), answers) if base else answers


def flat(profile: dict[str, Any]) -> str:
    """The lines that the C reads."""
    count = profile["count"]
    lines = {"system.driver": profile["driver"], "system.nvml": f"{profile['cuda'] // 1000}.{profile['driver']}"}
    lines |= {"system.cuda": profile["cuda"], "system.count": count}
    for i in range(count):
        own = profile.get("cards", {}).get(i, {})
        place = {
            "uuid": f"GPU-5a7d0000-0000-4000-8000-{i:012d}",
            "serial": f"17910240000{i:02d}",
            "minor": count - 1 - i,  # the minor number is not the index
            "bus_id": profile["bus_ids"][i],
            "cpu_affinity": mask(profile["cpus"][i]),
            "memory_affinity": f"{1 << profile['nodes'][i]:x}",
        }
        answers = merged(merged(card(own.get("kind", profile["card"])), place), own)
        lines |= {f"gpu.{i}.{key}": value for key, value in spread(answers).items() if key != "kind"}
    for i, row in enumerate(profile["links"]):
        for j, label in enumerate(row.split()):
            if i != j:
                lines[f"pair.ancestor.{i}.{j}"] = ANCESTOR[label]
    lines |= {f"pair.{key}": value for key, value in {**P2P_OK, **profile.get("p2p", {})}.items()}
    lines |= profile.get("faults", {})
    return "".join(f"{key}={value}\n" for key, value in lines.items() if value is not None)


def mask(cpus: str) -> str:
    """A CPU list (`0-63,128`) as 64-bit words in hex, lowest first."""
    bits = 0
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        for cpu in range(int(first), int(last or first) + 1):
            bits |= 1 << cpu
    return " ".join(f"{bits >> 64 * word & (1 << 64) - 1:x}" for word in range(max(1, -(-bits.bit_length() // 64))))


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid on `under`, mappings key by key."""
    result = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def spread(answers: dict[str, Any]) -> dict[str, Any]:
    """Nested keys joined with a dot."""
    result = {}
    for key, value in answers.items():
        if isinstance(value, dict):
            result |= {f"{key}.{below}": item for below, item in value.items()}
        else:
            result[key] = value
    return result


if __name__ == "__main__":
    _, target, *wanted = sys.argv
    build_library(Path(target))
    for wanted_name in wanted or names():
        Path(target, f"{wanted_name}.profile").write_text(flat(load(wanted_name)))
