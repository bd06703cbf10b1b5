"""`kit rehearse`: the way from configuration to the first accepted draft, on a tiny target, before the load."""

from __future__ import annotations

from typing import Annotated

import typer

from kit.cli import out
from kit.cli.options import File, Json, Sets


def command(
    form: Annotated[
        str | None,
        typer.Option(help="Reference form of the target; default: the one like kit.yaml's.", show_default=False),
    ] = None,
    tensor: Annotated[int, typer.Option(min=1, max=4, help="Tensor parallel size, as processes on this machine.")] = 1,
    gpu: Annotated[bool, typer.Option("--gpu", help="On one GPU, in the production image itself.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running for a look.")] = False,
    file: File = None,
    sets: Sets = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Serve a tiny target of the same form with the same vLLM, patches and speculation.

    Every step from configuration to the first accepted draft runs in about a minute; counters must equal the
    prediction and auxiliary states what hooks see. Exit 0 pass, 3 not as predicted, 4 the engine failed.
    """
    from kit.config import load
    from kit.errors import EngineFailed, GateError
    from kit.logs import render_text
    from kit.patches import catalog
    from kit.patches.plan import plan
    from kit.rehearse import run
    from kit.serve.watched import Died
    from kit.smoke.show import show

    deployment = load(file, sets)
    small = run.prepare(deployment, form, tensor=tensor, gpu=gpu)
    done = run.rehearse(small, out.say, keep=keep)
    seen = done.seen
    method = small.kit.speculative.method if small.kit.speculative else None
    patches = plan(small.kit.engine.vllm, small.kit.engine.patches, catalog.product(), method=method).ids
    report = run.report(small, patches, done)
    if json:
        out.as_json(report)
    if isinstance(seen, Died):
        if not json:
            out.data(render_text(seen.diagnosis), coloured=True)
        raise EngineFailed(f"the rehearsal failed: {seen.reason}", hint=f"mend the cause; the whole log: {seen.log}")
    if not json:
        show(seen.smoke, out.console())
    if seen.states and not json:
        out.data(
            f"auxiliary states of layers {list(seen.states.layers)}: "
            f"{seen.states.equal} of {seen.states.compared} equal what hooks see"
        )
    if not done.good:
        raise GateError(
            "the rehearsal served, but not as predicted", hint="kit patches prove shows which patch is at fault"
        )
    out.say(
        f"rehearsed: vLLM {report['vllm']} with {len(patches)} patches takes {report['form']} and drafts as predicted"
    )
