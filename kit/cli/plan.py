"""`kit plan`: does the model fit these cards, how long may a context be, how many requests at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kit.cli import out
from kit.cli.options import File, Json, Sets

if TYPE_CHECKING:
    from kit.plan.plan import Plan


def command(
    file: File = None,
    sets: Sets = [],  # noqa: B006
    card_memory: Annotated[
        str | None,
        typer.Option("--card-memory", help="Plan for cards of this size, such as 95GiB.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Plan the memory of each card without loading anything. Exit 3 when the model will not fit."""
    from kit.config import load
    from kit.errors import GateError
    from kit.model import judge_drafter, judge_target, read_folder
    from kit.model.use import use_of
    from kit.plan.from_deployment import card_of, setup_of, snapshot_or_none
    from kit.plan.plan import alternatives, cards_needed, make_plan
    from kit.serve.prepare import write_reference

    deployment = load(file, sets)
    write_reference(deployment)
    card, source = card_of(deployment, None if card_memory else snapshot_or_none(deployment), card_memory)
    target = judge_target(read_folder(deployment.target))
    drafter = None
    if deployment.drafter:
        drafter = judge_drafter(read_folder(deployment.drafter), target, use_of(deployment))
    bad = [facts for facts in (target, drafter) if facts and (facts.config is None or not facts.weights.tensors)]
    if bad:
        raise GateError(
            f"nothing to plan with: {bad[0].name}",
            evidence=[finding.found for finding in bad[0].findings][:5],
            hint="kit model show",
        )
    setup = setup_of(deployment, target, card)
    plan = make_plan(target, drafter, setup)
    options = [] if plan.fits else alternatives(target, drafter, setup)
    cards = None if plan.fits or options else cards_needed(target, drafter, setup)
    if json:
        out.as_json(_as_dict(plan, source, options, cards))
    else:
        _print(plan, source, options, cards)
    raise typer.Exit(0 if plan.fits else 3)


def _as_dict(plan: Plan, source: str, options: list[tuple[dict[str, str], Plan]], cards: int | None) -> dict[str, Any]:
    setup = plan.setup
    return {
        "schema": "kit.plan/1",
        "verdict": "pass" if plan.fits else "fail",
        "card": {"name": setup.card.name, "bytes": setup.card.total, "source": source} if setup.card else None,
        "tensor": setup.tensor,
        "pipeline": setup.pipeline,
        "per_rank_bytes": {
            "budget": plan.budget,
            "weights": plan.weights,
            "target": plan.target.total,
            "target_split": plan.target.split,
            "target_whole": plan.target.whole,
            "target_experts": plan.target.experts,
            "drafter": plan.drafter.total if plan.drafter else 0,
            "mla_absorbed": plan.absorbed,
            "kv_cache": plan.kv_memory,
            "kv_per_token": plan.kv_per_token,
        },
        "allowances": [
            {"name": item.name, "bytes": item.nbytes, "inside": item.inside, "source": item.source}
            for item in plan.allowances
        ],
        "kv_tokens": plan.tokens,
        "context": plan.context,
        "longest_context": plan.longest,
        "concurrency": round(plan.concurrency, 2),
        "findings": [finding.as_dict() for finding in plan.findings],
        "alternatives": [
            {"set": keys, "kv_tokens": other.tokens, "concurrency": round(other.concurrency, 2)}
            for keys, other in options
        ],
        "cards_needed": cards,
        "assumptions": list(plan.assumptions),
    }


def _print(plan: Plan, source: str, options: list[tuple[dict[str, str], Plan]], cards: int | None) -> None:
    from rich.table import Table

    setup = plan.setup
    table = Table("on each rank", "GiB", "what it is", box=None)
    if setup.card:
        table.add_row("card", _gib(setup.card.total), out.clean(f"{setup.card.name}: {source}"))
        table.add_row("share of vLLM", _gib(plan.budget), f"gpus.memory_utilization {setup.utilization:g}")
    split = f"split {_gib(plan.target.split)}, whole {_gib(plan.target.whole)}, experts {_gib(plan.target.experts)}"
    table.add_row("target", _gib(plan.target.total), split)
    if plan.drafter:
        table.add_row("drafter", _gib(plan.drafter.total), "")
    if plan.absorbed:
        table.add_row("MLA's second copy", _gib(plan.absorbed), "kv_b_proj in the form that decoding multiplies with")
    for item in plan.allowances:
        place = "" if item.inside else " (outside the share)"
        table.add_row(item.name, _gib(item.nbytes), item.source + place)
    table.add_row("KV cache", _gib(plan.kv_memory), f"{plan.tokens:,} tokens at {plan.kv_per_token:,} bytes")
    out.console().print(table)
    requests = f"{plan.concurrency:.2f} requests of {plan.context:,} tokens at once"
    out.data(f"longest context {plan.longest:,} tokens; {requests}")
    for assumption in plan.assumptions:
        out.detail(f"assumed: {assumption}")
    for finding in plan.findings:
        out.data(out.clean(f"  {finding.severity}  {finding.id}: {finding.found}"))
        out.data(out.clean(f"        fix: {finding.fix}"))
    for keys, other in options:
        change = " ".join(f"--set {key}={value}" for key, value in keys.items())
        out.data(f"  fits with: {change}  ({other.tokens:,} tokens, {other.concurrency:.2f} requests at once)")
    if cards:
        out.data(f"  fits on {cards} cards of this kind, by tensor parallelism")


def _gib(nbytes: int) -> str:
    return f"{nbytes / (1 << 30):.2f}"
