"""`kit reference`: tiny models whose acceptance is known exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.cli import out

app = typer.Typer(
    help="Write the reference models and say what they must answer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="For programs.")]


@app.command("list")
def list_models(as_json: Json = False) -> None:
    """The forms of the target and the drafters."""
    from rich.table import Table

    from kit.reference import DRAFTERS, FORMS, predict

    drafters = {
        name: {"summary": drafter.summary, "acceptance_rate": predict(name, 5, 100, 5).acceptance_rate}
        for name, drafter in DRAFTERS.items()
    }
    if as_json:
        forms = {name: form.summary for name, form in FORMS.items()}
        out.as_json({"schema": "kit.reference-list/1", "forms": forms, "drafters": drafters})
        return
    table = Table("target form", "what it is", box=None)
    for name, form in FORMS.items():
        table.add_row(name, form.summary)
    out.console().print(table)
    table = Table("drafter", "what it is", "accepted of 5 drafted, 100 tokens after t5", box=None)
    for name, row in drafters.items():
        table.add_row(name, str(row["summary"]), f"{row['acceptance_rate']:.1%}")
    out.console().print(table)


@app.command("write")
def write_models(
    folder: Annotated[Path, typer.Argument(help="Where to put them.")],
    form: Annotated[list[str] | None, typer.Option("--form", help="A form of the target; all if left out.")] = None,
    drafter: Annotated[list[str] | None, typer.Option("--drafter", help="A drafter; all if left out.")] = None,
    vllm: Annotated[str | None, typer.Option("--vllm", help="Version of vLLM that will serve them.")] = None,
    as_json: Json = False,
) -> None:
    """Write targets and drafters below FOLDER; what is there and intact is left alone."""
    from kit.reference import DRAFTERS, FORMS, write

    targets: dict[str, str] = {}
    drafters: dict[str, str] = {}
    for name in form or FORMS:
        written = write(name, folder, vllm=vllm, drafters=drafter or DRAFTERS)
        targets[name] = str(written.target)
        drafters |= {key: str(path) for key, path in written.drafters.items()}
    if as_json:
        out.as_json({"schema": "kit.reference/1", "targets": targets, "drafters": drafters})
        return
    for path in (*targets.values(), *drafters.values()):
        out.data(out.clean(path))


@app.command("predict")
def predict_counters(
    drafter: Annotated[str, typer.Option("--drafter", help="A reference drafter.")] = "aux",
    prompt_token: Annotated[int, typer.Option("--prompt-token", min=0, max=127, help="N of the last word, tN.")] = 5,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, max=2048, help="New tokens of the request.")] = 100,
    num_speculative_tokens: Annotated[int, typer.Option("--num-speculative-tokens", min=1, max=64)] = 5,
    as_json: Json = False,
) -> None:
    """The counters and the text that a server must answer to one greedy request."""
    from kit.reference import predict
    from kit.reference.store import drafter_name

    prediction = predict(drafter_name(drafter), prompt_token, max_tokens, num_speculative_tokens)
    if as_json:
        out.as_json({"schema": "kit.reference-prediction/1", "drafter": drafter, **prediction.as_dict()})
        return
    accepted, drafted = prediction.num_accepted_tokens, prediction.num_draft_tokens
    out.data(f"drafts                  {prediction.num_drafts}")
    out.data(f"accepted / drafted      {accepted} / {drafted} ({prediction.acceptance_rate:.1%})")
    out.data(f"mean acceptance length  {prediction.mean_acceptance_length:.2f}")
    out.data(f"accepted per position   {' '.join(str(count) for count in prediction.per_position)}")
    out.data(f"text                    {prediction.as_dict()['text']}")
