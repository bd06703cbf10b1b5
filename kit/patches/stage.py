"""The files that an image build needs to patch its vLLM: the program and the series, as plain bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kit.patches.inside.common import SERIES_SCHEMA, sha256
from kit.patches.plan import Chosen, PatchPlan

PROGRAM = Path(__file__).parent / "inside"


def program_files() -> dict[str, bytes]:
    """The folder that becomes /opt/kit/patches: file name to content."""
    return {path.name: path.read_bytes() for path in sorted(PROGRAM.glob("*.py"))}


def series_files(plan: PatchPlan, rehearsal: PatchPlan | None = None) -> dict[str, bytes]:
    """The folder for `apply --series`: series.json and the diffs.

    `rehearsal` adds changes for rehearsals on a CPU build; a series with them is refused by
    `apply` and `verify` wherever --rehearsal is not given, and by every GPU build of vLLM.
    """
    files: dict[str, bytes] = {}
    entries: list[dict[str, Any]] = []
    for purpose, part in (("product", plan), ("rehearsal", rehearsal)):
        for item in part.chosen if part else ():
            name, diff = f"{len(entries) + 1:02d}-{item.patch.id}.patch", item.series.text(item.diff).encode()
            files[name] = diff
            entries.append({**metadata(item), "purpose": purpose, "file": name, "sha256": sha256(diff)})
    vllm = plan.chosen[0].series.vllm if plan.chosen else (plan.vllm.partition("+")[0],)
    series = {"schema": SERIES_SCHEMA, "vllm": list(vllm), "patches": entries}
    return {"series.json": (json.dumps(series, indent=2) + "\n").encode(), **files}


def metadata(item: Chosen) -> dict[str, Any]:
    """What a probe and `apply` need to know about a patch."""
    return {
        "id": item.patch.id,
        "title": item.patch.title,
        "files": {path: hashes.model_dump() for path, hashes in item.diff.files.items()},
        "probe": item.patch.probe.model_dump(),
        "live": list(item.patch.live),
    }
