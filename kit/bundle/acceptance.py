"""The acceptance report: what was installed, and its figures here beside those of the qualification."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kit import files
from kit.bundle.handover import figures
from kit.bundle.manifest import Manifest
from kit.bundle.qualification import Qualification, newest, read
from kit.bundle.releases import Releases

SCHEMA = "kit.acceptance/1"


def report(
    found: Manifest, signed_by: str | None, time: str, here: Qualification, there: Mapping[str, Any] | None
) -> dict[str, Any]:
    """`kit.acceptance/1`. `here` is what was shown on this machine, `there` the qualification's smoke report."""
    smoke, doctor = here.smoke or {}, here.doctor or {}
    return {
        "schema": SCHEMA,
        "verdict": "pass" if smoke.get("verdict") == "pass" and doctor.get("verdict") in ("pass", "warn") else "fail",
        "release": found.release,
        "signed_by": signed_by,
        "time": time,
        "image": {"reference": found.image.reference, "config": found.image.config},
        "doctor": doctor.get("verdict"),
        "ready_s": (here.run or {}).get("ready_s"),
        "smoke": here.smoke,
        "qualified": there,
    }


def record(releases: Releases, release: str) -> dict[str, Any]:
    """Make the report of a release from its newest start and write it as acceptance.json into its folder."""
    folder, found = releases.folder(release), releases.manifest(release)
    here = newest(folder / "deployment" / ".kit" / found.name)
    there = read(folder / "reports" / "smoke.json")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    value = report(found, releases.facts(release).get("signed_by"), now, here, there)
    files.write(folder / "acceptance.json", json.dumps(value, indent=1) + "\n")
    return value


def lines(value: Mapping[str, Any]) -> list[str]:
    """The report for people."""
    here, there = dict(figures(value["smoke"] or {})), dict(figures(value["qualified"] or {}))
    rows = [("", "here", "qualified"), *((name, here[name], there.get(name, "-")) for name in here)]
    widths = [max(len(row[n]) for row in rows) for n in range(3)]
    head = [
        f"acceptance of {value['release']}: {str(value['verdict']).upper()}",
        f"  signed by        {value['signed_by'] or 'nobody'}",
        f"  image            {value['image']['reference']}",
        f"  configuration    {value['image']['config']}",
        f"  doctor           {value['doctor'] or 'not run'}",
        f"  ready after      {value['ready_s']} s" if value["ready_s"] is not None else "  ready after      -",
    ]
    return head + ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
