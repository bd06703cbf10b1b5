"""What becomes of every patch on one vLLM source tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kit.patches.catalog import Catalog, Patch, Series, release
from kit.patches.inside.apply import patched
from kit.patches.inside.common import Refused, Tree
from kit.patches.inside.diff import apply_hunks, parse_diff
from kit.patches.inside.probe import Finding
from kit.patches.inside.probe import judge as judge_metadata
from kit.patches.plan import Chosen, in_order
from kit.patches.stage import metadata

Outcome = Literal["applies", "fails", "no-diff", "already-there", "obsolete", "broken"]
GOOD: tuple[Outcome, ...] = ("applies", "already-there", "obsolete")
TEXTS: dict[Outcome, str] = {
    "applies": "needed, applies cleanly",
    "fails": "needed, does not apply",
    "no-diff": "needed, no diff for this release",
    "already-there": "already there",
    "obsolete": "obsolete",
    "broken": "cannot be judged",
}


@dataclass(frozen=True)
class Outlook:
    """One patch on one tree: what its probe found, what becomes of it, why, and what was seen."""

    patch: Patch
    finding: Finding
    outcome: Outcome
    why: str
    evidence: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return self.outcome in GOOD


def judge(tree: Tree, patch: Patch) -> Finding:
    """What the tree says about a patch: needed, applied, not-needed or broken."""
    return judge_metadata(tree, {"id": patch.id, "probe": patch.probe.model_dump()})


def check(vllm: str, tree: Tree, catalog: Catalog) -> list[Outlook]:
    """The outlook of every patch on the tree of a release, in order of application."""
    series = catalog.series_for(vllm)
    return [_outlook(vllm, tree, patch, series, catalog) for patch in in_order(catalog)]


def _outlook(vllm: str, tree: Tree, patch: Patch, series: Series | None, catalog: Catalog) -> Outlook:
    finding = judge(tree, patch)
    if finding.state == "broken":
        return Outlook(patch, finding, "broken", finding.why)
    if finding.state == "applied":
        return Outlook(patch, finding, "already-there", finding.why)
    if finding.state == "not-needed":
        if patch.needed_by(vllm):
            return Outlook(patch, finding, "already-there", finding.why)
        return Outlook(patch, finding, "obsolete", f"vLLM has it since {patch.fixed_in}")
    diff = next((diff for diff in series.diffs if diff.id == patch.id), None) if series else None
    if series is None or diff is None:
        return _nearest(vllm, tree, patch, finding, catalog)
    try:
        patched(tree, [(metadata(Chosen(patch, diff, series)), series.text(diff))])
    except Refused as refused:
        evidence = [*refused.evidence, *_first_failing_hunk(tree, series.text(diff))]
        return Outlook(patch, finding, "fails", refused.message, tuple(evidence))
    return Outlook(patch, finding, "applies", finding.why)


def _nearest(vllm: str, tree: Tree, patch: Patch, finding: Finding, catalog: Catalog) -> Outlook:
    """A release without a diff: how far the diff of the nearest release would get."""
    candidates = [(series, diff) for series in catalog.series for diff in series.diffs if diff.id == patch.id]
    if not candidates:
        return Outlook(patch, finding, "no-diff", f"{finding.why}; there is no diff of it yet")
    numbers = release(vllm).release

    def distance(vllm: str) -> int:
        there = release(vllm).release
        return abs((numbers[0] - there[0]) * 1000 + numbers[1] - there[1])

    series, diff = min(candidates, key=lambda item: min(distance(v) for v in item[0].vllm))
    failing = _first_failing_hunk(tree, series.text(diff))
    near = f"the diff for {series.vllm[0]}"
    if failing:
        return Outlook(patch, finding, "no-diff", f"{finding.why}; {near} does not apply", tuple(failing))
    return Outlook(patch, finding, "no-diff", f"{finding.why}; {near} would apply, but was never proven here")


def _first_failing_hunk(tree: Tree, diff: str) -> list[str]:
    """The first hunk that does not stand at its line, and what stands there instead; empty if all do."""
    for path, hunks in parse_diff(diff).items():
        text = tree(path)
        if text is None:
            return [f"{path} is not in this vLLM"]
        try:
            apply_hunks(path, text, hunks)
        except Refused as refused:
            return [refused.message, *refused.evidence]
    return []


def wanted_files(catalog: Catalog) -> set[str]:
    """Every file that a probe or a diff of the catalog looks at."""
    probed = {path for patch in catalog.patches.values() for path in patch.probe.files}
    return probed | {path for series in catalog.series for diff in series.diffs for path in diff.files}


def as_json(vllm: str, wheel: str, sha256: str, outlooks: list[Outlook]) -> dict[str, Any]:
    """`kit patches check --json`."""
    return {
        "schema": "kit.patch-check/1",
        "verdict": "pass" if all(item.good for item in outlooks) else "fail",
        "vllm": vllm,
        "wheel": wheel,
        "sha256": sha256,
        "patches": [
            {
                "id": item.patch.id,
                "state": item.finding.state,
                "outcome": item.outcome,
                "why": item.why,
                "evidence": list(item.evidence),
            }
            for item in outlooks
        ],
    }
