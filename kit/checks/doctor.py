"""`kit doctor` as a whole: run, print, keep what was seen; and the preflight of `kit up`."""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from kit import advice as advices
from kit import files
from kit.checks.facts import Facts
from kit.checks.registry import chosen
from kit.checks.run import SCHEMA, Result, run, verdict
from kit.checks.show import advice_lines, lines, summary
from kit.cli import out
from kit.config import Deployment
from kit.errors import EXIT_GOOD, GateError, MissingError

MISSING = ("docker.answers", "docker.gpu-access", "gpu.driver-answers", "gpu.present", "image.present", "config.mounts")


def doctor(
    deployment: Deployment, wanted: Sequence[str], *, json: bool, accept: bool | None, call_limit_s: float
) -> int:
    """Run these checks and print; returns the exit code, 3 when one failed.

    `accept` True keeps the advice for rendering, False removes what was kept.
    """
    facts = Facts(deployment, call_limit_s)
    families = {name.partition(".")[0] for name in wanted}
    facts.begin(families)
    results = run(wanted, facts)
    on_gpus = deployment.kit.engine.device == "cuda" and bool(families & {"gpu", "link"})
    advice = facts.advice if on_gpus or accept else advices.Advice()
    keep(facts, results)
    if accept:
        advices.accept(deployment, advice)
    elif accept is False:
        advices.forget(deployment)
    if json:
        out.as_json(document(deployment, results) | {"advice": asdict(advice)})
    else:
        for line in lines(results, skipped=out.verbose, colour=out.colour(sys.stdout)):
            out.data(line, coloured=True)
        for line in advice_lines(advice, deployment.kit.engine.env):
            out.data(out.clean(line))
        out.data(summary(results))
    if accept:
        out.say(f"accepted: {advices.path(deployment)}; kit render and kit up follow it, kit.yaml wins")
    return GateError.exit_code if verdict(results) == "fail" else EXIT_GOOD


def preflight(deployment: Deployment, say: Callable[[str], None], ignore: Sequence[str] = ()) -> bool:
    """The checks of `kit up`, run before anything is started; true when none failed.

    Raises MissingError when what is missing fails a check (a GPU, an engine), GateError when another fails. The tiny
    reference models load in seconds: what fails of their files is only said, so that the engine's own words follow.
    """
    facts, wanted = Facts(deployment), chosen(ignore=ignore)
    facts.begin({name.partition(".")[0] for name in wanted})
    results = run(wanted, facts)
    keep(facts, results)
    failed = [result for result in results if result.answer.status == "fail"]
    clean = not failed
    if deployment.kit.model.reference:
        for result in [r for r in failed if r.check.family() in ("model", "drafter")]:
            say(f"doctor: {result.check.id}: {result.answer.found}")
            failed.remove(result)
    if failed:
        kind = MissingError if failed[0].check.id in MISSING else GateError
        raise kind(
            f"{len(failed)} check{'' if len(failed) == 1 else 's'} failed; nothing was started",
            evidence=[f"{r.check.id}: {r.answer.found} (want: {r.answer.want or r.check.title})" for r in failed],
            hint=failed[0].answer.fix or f"kit doctor --select {failed[0].check.id}",
        )
    return clean


def document(deployment: Deployment, results: Sequence[Result]) -> dict[str, Any]:
    """`kit.doctor/1`."""
    return {
        "schema": SCHEMA,
        "deployment": deployment.name,
        "verdict": verdict(results),
        "checks": [result.to_json() for result in results],
    }


def keep(facts: Facts, results: Sequence[Result]) -> None:
    """Write results and the facts gathered to `.kit/NAME/doctor/`: a later failure can be read against them."""
    folder = facts.deployment.state / "doctor"
    kept: dict[str, Any] = {"doctor.json": document(facts.deployment, results)}
    gathered = vars(facts)
    if "host" in gathered:
        kept["host.json"] = asdict(facts.host)
    if "gpus" in gathered:
        from kit.gpu.document import as_document

        kept["gpus.json"] = as_document(facts.gpus, facts.findings)
    for name, content in kept.items():
        files.write(folder / name, json_.dumps(content, indent=2) + "\n")
