"""`kit model`: what is known of target and drafter without loading them, and whether their bytes are whole."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kit.cli import out
from kit.cli.options import File, Json, Sets

if TYPE_CHECKING:
    from kit.model import ModelFacts

app = typer.Typer(
    help="Facts of target and drafter without loading them; verify every byte.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(help="Folder of the model.", show_default=False)]


@app.command("show")
def show(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of the target. Default: the one of kit.yaml.", show_default=False)
    ] = None,
    drafter: Annotated[Path | None, typer.Option("--drafter", help="Folder of a drafter.", show_default=False)] = None,
    file: File = None,
    sets: Sets = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Facts of the target, and of the drafter against it. Exit 3 when something is wrong."""
    from kit.model import Use, judge_drafter, judge_target, read_folder

    use = Use()
    if folder is None:
        from kit.config import load
        from kit.model.use import use_of
        from kit.serve.prepare import write_reference

        deployment = load(file, sets)
        write_reference(deployment)
        folder, use = deployment.target, use_of(deployment)
        drafter = drafter or deployment.drafter
    target = judge_target(read_folder(folder))
    judged = {"target": target}
    if drafter:
        judged["drafter"] = judge_drafter(read_folder(drafter), target, use)
    failed = any(facts.failed for facts in judged.values())
    if json:
        models = {role: _as_dict(facts) for role, facts in judged.items()}
        out.as_json({"schema": "kit.model/1", "verdict": "fail" if failed else "pass", **models})
    else:
        for role, facts in judged.items():
            _print(role, facts)
    raise typer.Exit(3 if failed else 0)


@app.command("manifest")
def manifest(
    folder: Folder,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the manifest.")],
) -> None:
    """Hash every file of a model and write the manifest that `kit model verify` compares with."""
    from kit import files
    from kit.cli.progress import byte_progress
    from kit.model.manifest import list_files, make_manifest

    total = sum(list_files(folder).values())
    with byte_progress(total, f"hashing {folder}") as advance:
        made = make_manifest(folder, _journal(folder), advance)
    files.write(output, made.text())
    out.say(f"{output}: {len(made.files)} files, {total / 1e9:.1f} GB")


@app.command("verify")
def verify_bytes(
    folder: Folder,
    manifest: Annotated[Path, typer.Option("--manifest", "-m", help="The manifest.", show_default=False)],
    json: Json = False,
) -> None:
    """Compare every byte with a manifest. Can be interrupted and run again. Exit 6 when a file differs."""
    from kit.cli.progress import byte_progress
    from kit.errors import IntegrityError
    from kit.model.manifest import read_manifest, verify

    wanted = read_manifest(manifest)
    with byte_progress(wanted.total, f"verifying {folder}") as advance:
        differences = verify(folder, wanted, _journal(folder), advance)
    wrong = [difference for difference in differences if difference.kind != "extra"]
    if json:
        rows = [{"name": d.name, "kind": d.kind, "text": d.text} for d in differences]
        out.as_json({"schema": "kit.verify/1", "verdict": "fail" if wrong else "pass", "differences": rows})
    for difference in differences:
        if difference.kind == "extra":
            out.say(f"{difference.name}: {difference.text}")
    if wrong:
        raise IntegrityError(
            f"{len(wrong)} of {len(wanted.files)} files differ from the manifest",
            evidence=[f"{difference.name}: {difference.text}" for difference in wrong[:20]],
            hint="fetch these files again, then run this again",
        )
    out.say(f"{folder}: {len(wanted.files)} files, {wanted.total / 1e9:.1f} GB, all as the manifest says")


def _journal(folder: Path) -> Path:
    from kit.home import kit_home

    name = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]
    return kit_home() / "verify" / f"{name}.jsonl"


def _as_dict(facts: ModelFacts) -> dict[str, Any]:
    config, weights = facts.config, facts.weights
    return {
        "name": facts.name,
        "architecture": config.architecture if config else None,
        "quantization": config.quantization if config else None,
        "dtype": config.dtype if config else None,
        "text": config.text.model_dump(exclude_none=True) if config else {},
        "files": len(weights.files),
        "tensors": len(weights.tensors),
        "bytes": weights.nbytes,
        "bytes_by_dtype": weights.bytes_by_dtype,
        "findings": [finding.as_dict() for finding in facts.findings],
    }


def _print(role: str, facts: ModelFacts) -> None:
    from rich.table import Table

    config, weights = facts.config, facts.weights
    rows = {role: facts.name}
    if config:
        text = config.text
        rows["architecture"] = config.architecture or "unknown"
        rows["quantization"] = config.quantization or "none"
        rows["layers, hidden size"] = f"{text.num_hidden_layers}, {text.hidden_size}"
        rows["vocabulary"] = f"{text.vocab_size}"
        rows["longest context"] = f"{text.max_position_embeddings} tokens"
    types = ", ".join(f"{dtype} {size / 1e9:.2f} GB" for dtype, size in weights.bytes_by_dtype.items())
    rows["weights"] = f"{weights.nbytes / 1e9:.2f} GB in {len(weights.files)} files, {len(weights.tensors)} tensors"
    rows["types"] = types or "none"
    table = Table(box=None, show_header=False)
    for name, value in rows.items():
        table.add_row(name, out.clean(value))
    out.console().print(table)
    for finding in facts.findings:
        out.data(out.clean(f"  {finding.severity}  {finding.id}: {finding.found}"))
        out.data(out.clean(f"        want: {finding.want}"))
        out.data(out.clean(f"        fix:  {finding.fix}"))
