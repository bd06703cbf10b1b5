"""Apply a series of patches to an installed vLLM: all of it or nothing."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from .common import (
    GATE,
    INTEGRITY,
    MISSING,
    RECORD_SCHEMA,
    SERIES_SCHEMA,
    USAGE,
    Refused,
    Tree,
    installed_version,
    read_bytes,
    read_json,
    reader,
    replace_files,
    sha256,
    write_json,
)
from .diff import apply_hunks, parse_diff
from .probe import MARKER

GPU_BUILD = "vllm/cumem_allocator*.so"  # only GPU builds of vLLM have this extension


def patched(tree: Tree, patches: list[tuple[dict[str, Any], str]]) -> dict[str, str]:
    """The texts of all files that the patches (metadata, diff text) change, in order, hashes checked.

    Raises Refused when a file is missing, has other bytes than the patch was made for, was patched
    before, or comes out other than recorded, or as something Python does not parse.
    """
    texts: dict[str, str] = {}
    for patch, diff in patches:
        name, hashes = patch["id"], patch["files"]
        changes = parse_diff(diff)
        if set(changes) != set(hashes):
            raise Refused(INTEGRITY, f"{name}: the diff changes {sorted(changes)}, its metadata says {sorted(hashes)}")
        for path, hunks in changes.items():
            text = texts[path] if path in texts else tree(path)
            if text is None:
                raise Refused(MISSING, f"{name}: {path} is not in this vLLM")
            now, want = sha256(text.encode()), hashes[path]
            if now == want["after"] or MARKER + name in text:
                raise Refused(GATE, f"{name} is already applied to {path}", hint="start from an unpatched vLLM")
            if now != want["before"]:
                evidence = [f"sha256 wanted: {want['before']}", f"sha256 found:  {now}"]
                raise Refused(INTEGRITY, f"{name}: {path} is not the file this patch was made for", evidence)
            new = apply_hunks(path, text, hunks)
            try:
                ast.parse(new, path)
            except SyntaxError as error:
                evidence = [f"line {error.lineno}: {(error.text or '').rstrip()}"]
                raise Refused(GATE, f"{name} breaks the syntax of {path}: {error.msg}", evidence) from None
            if sha256(new.encode()) != want["after"]:
                evidence = [f"sha256 wanted: {want['after']}", f"sha256 made:   {sha256(new.encode())}"]
                raise Refused(INTEGRITY, f"{name}: {path} does not come out as recorded", evidence)
            texts[path] = new
    return texts


def apply(site: Path, folder: Path, record: Path, rehearsal: bool = False) -> dict[str, Any]:
    """Apply the series in `folder` to the vLLM in `site` and write `record`; all of it or nothing."""
    series = read_json(folder / "series.json", SERIES_SCHEMA)
    version = installed_version(site)
    if version.partition("+")[0] not in series["vllm"]:
        raise Refused(USAGE, f"this series is for vLLM {', '.join(series['vllm'])}; {version} is installed in {site}")
    kept_apart = [patch["id"] for patch in series["patches"] if patch["purpose"] != "product"]
    if kept_apart and not rehearsal:
        raise Refused(USAGE, f"{kept_apart[0]} is for rehearsals only and never goes into an image that serves")
    if kept_apart and list(site.glob(GPU_BUILD)):
        raise Refused(USAGE, f"{kept_apart[0]} is for rehearsals on a CPU build of vLLM; {site} has a GPU build")
    patches = []
    for patch in series["patches"]:
        diff = read_bytes(folder / patch["file"])
        if sha256(diff) != patch["sha256"]:
            evidence = [f"sha256 wanted: {patch['sha256']}", f"sha256 found:  {sha256(diff)}"]
            raise Refused(INTEGRITY, f"{patch['file']} was changed after the series was written", evidence)
        patches.append((patch, diff.decode()))
    texts = patched(reader(site), patches)
    replace_files({site / path: text.encode() for path, text in texts.items()})
    done = {
        "schema": RECORD_SCHEMA,
        "vllm": version,
        "site": str(site.absolute()),
        "patches": series["patches"],
        "files": {path: sha256(text.encode()) for path, text in sorted(texts.items())},
        "bytecode": None,
    }
    write_json(record, done)
    return done
