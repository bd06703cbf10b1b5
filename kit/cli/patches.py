"""`kit patches`: the patches that come with the kit, and what becomes of them on a vLLM release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kit.cli import out
from kit.cli.options import File, Json, Sets, group

if TYPE_CHECKING:
    from kit.patches.catalog import Catalog
    from kit.patches.check import Outlook

app = group("List, show, check and prove the patches baked into an image.")

NOT_NEEDED = "it needs none of them"
Vllm = Annotated[str | None, typer.Option("--vllm", help="A vLLM release, such as 0.16.0.", show_default=False)]


@app.command("list")
def list_(vllm: Vllm = None, json: Json = False) -> None:
    """List every patch: what it mends, for which releases there is a diff, and since when vLLM has it."""
    from kit.patches import catalog, plan

    known = catalog.product()
    rows: list[dict[str, Any]] = [
        {
            "id": patch.id,
            "title": patch.title,
            "releases": plan.releases_of(patch.id, known),
            "fixed_in": patch.fixed_in,
            "model_types": patch.affects.model_types,
        }
        for patch in plan.in_order(known)
        if vllm is None or str(catalog.release(vllm)) in plan.releases_of(patch.id, known)
    ]
    if json:
        out.as_json({"schema": "kit.patches-list/1", "vllm": vllm, "patches": rows})
        return
    for row in rows:
        out.data(f"{row['id']}\n    {row['title']}")
        out.data(f"    for vLLM {', '.join(row['releases'])}; not needed from {row['fixed_in']} on")
    if vllm and not rows:
        needed = [patch.id for patch in plan.in_order(known) if patch.needed_by(vllm)]
        out.data(
            f"vLLM {vllm} has no series of patches: " + (f"it needs {', '.join(needed)}" if needed else NOT_NEEDED)
        )


@app.command()
def show(patch: str, vllm: Vllm = None) -> None:
    """Print what a patch is for, what is seen without it, and its diff."""
    from kit.errors import UsageError
    from kit.patches import catalog, plan

    known = catalog.product()
    ids = plan.plan(vllm or known.series[0].vllm[0], [patch], known, method=None).ids  # refuses unknown names
    item = known.patches[patch]
    releases = plan.releases_of(patch, known)
    if vllm and not ids:
        raise UsageError(f"vLLM {vllm} does not need {patch}: it has it since {item.fixed_in}")
    out.data(f"{item.id}: {item.title}\n\n{item.why}\n")
    out.data(f"seen without it ({item.symptom.process}): {item.symptom.example}")
    out.data(f"diffs for vLLM {', '.join(releases)}; not needed from {item.fixed_in} on\n")
    series = known.series_for(vllm or releases[-1])
    for diff in series.diffs if series else ():
        if series and diff.id == patch:
            out.data(out.clean(series.text(diff), "\t\n"))


@app.command()
def check(
    vllm: Vllm = None,
    wheel: Annotated[Path | None, typer.Option(help="Read this wheel file instead of fetching one.")] = None,
    file: File = None,
    sets: Sets = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Say for each patch whether a vLLM release needs it and whether it applies there.

    Without --vllm and --wheel, the release that kit.yaml names. Ends with 3 when a patch that is needed
    does not apply.
    """
    from kit.errors import GateError
    from kit.home import kit_home
    from kit.patches import catalog, source
    from kit.patches import check as judgement

    known = catalog.product()
    wanted = judgement.wanted_files(known)
    listed: Sequence[str] = []
    if wheel is not None:
        found = source.read_wheel(wheel, wanted)
        vllm = vllm or found.vllm
    else:
        if vllm is None:
            from kit.config import load

            engine = load(file, sets).kit.engine
            vllm, listed = engine.vllm, [] if engine.patches == "auto" else engine.patches
        found = source.fetch(vllm, wanted, kit_home() / "vllm-sources", out.say)
    outlooks = judgement.check(vllm, found.tree, known)
    if json:
        out.as_json(judgement.as_json(vllm, found.wheel, found.sha256, outlooks))
    else:
        _print(vllm, known, outlooks)
    for item in outlooks:
        if item.patch.id in listed and item.outcome == "obsolete":
            out.say(f"engine.patches in kit.yaml names {item.patch.id}, which vLLM {vllm} has of its own: take it out")
    bad = [item for item in outlooks if not item.good]
    if bad:
        raise GateError(
            f"vLLM {vllm}: {len(bad)} of {len(outlooks)} patches are needed and do not apply",
            hint="pin a release that has a series (kit patches list), or write one: images/patches/README.md",
        )


def _print(vllm: str, known: Catalog, outlooks: list[Outlook]) -> None:
    from kit.patches.check import TEXTS

    series = known.series_for(vllm)
    out.data(f"vLLM {vllm}: " + (f"series {series.folder.name}" if series else "no series of patches"))
    width = max(len(item.patch.id) for item in outlooks)
    for item in outlooks:
        out.data(f"  {item.patch.id:<{width}}  {TEXTS[item.outcome]}: {out.clean(item.why)}")
        for line in item.evidence:
            out.data(f"  {'':<{width}}    {out.clean(line)}")


@app.command()
def prove(
    python: Annotated[
        Path | None,
        typer.Option(help="Python of an environment with a CPU build of vLLM; no container then.", show_default=False),
    ] = None,
    file: File = None,
    sets: Sets = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Show on a real engine that each patch is needed and works: red without it, green with it.

    Starts a reference target with none of the patches, then with the first, the first two, and so on. Each
    start must fail with the message that the next patch mends, and the last must serve with exact counters.
    """
    from kit.config import load
    from kit.errors import GateError
    from kit.rehearse import prove as proof
    from kit.rehearse.scenarios import scenarios

    deployment = load(file, sets)
    if python is not None:
        bench = proof.process_bench(deployment, python, out.say)
    else:
        from kit.rehearse.bench import container_bench

        bench = container_bench(deployment, out.say)
    seen = proof.prove(bench, scenarios(bench.plan), out.say)
    report = proof.as_json(bench.plan, seen)
    if json:
        out.as_json(report)
    else:
        for entry in report["patches"]:
            marks = ("red" if entry["red_without"] else "NOT red", "green" if entry["green_with"] else "NOT green")
            out.data(f"{entry['id']:<28} {marks[0]} without it, {marks[1]} with it")
    if report["verdict"] != "pass":
        bad = [f"{item.scenario.title}: {item.cause}" for item in seen if not item.as_expected]
        raise GateError(
            f"{len(bad)} of {len(seen)} starts were not as expected", evidence=bad, hint="kit patches check"
        )
