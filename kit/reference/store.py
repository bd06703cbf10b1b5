"""Reference models on disk: written whole, known again by their hashes, never written twice.

FOLDER/kimi-k2.5/        a target: config.json, model.safetensors, tokenizer.json, ...
FOLDER/drafters/full/    a drafter; every form of the target takes the same ones
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion

from kit import files
from kit.errors import KitError, UsageError
from kit.reference import configs, image_processor, targets
from kit.reference.drafters import DRAFTERS
from kit.reference.drafters import config as drafter_config
from kit.reference.drafters import weights as drafter_weights
from kit.reference.tensors import safetensors_bytes, sha256

Contents = dict[str, bytes]  # file name -> bytes

DIGESTS = Path(__file__).parent / "digests.json"
OWN_PROCESSOR = "+image-processor"


@dataclass(frozen=True)
class Form:
    """One form of the target: what real model it stands for, and how its two large parts are made."""

    summary: str
    config: Callable[[], configs.Json]
    weights: Callable[[], targets.Tensors]
    multimodal: bool = False


FORMS = {
    "kimi-k2.5": Form(
        "the DeepSeek-V3 form inside the Kimi-K2.5 wrapper", configs.kimi_k25, targets.kimi_k25, multimodal=True
    ),
    "deepseek-v3": Form("multi-head latent attention, mixture of experts", configs.deepseek_v3, targets.deepseek_v3),
    "llama": Form("grouped-query attention, dense layers", configs.llama, targets.llama),
}


@dataclass(frozen=True)
class ReferenceSet:
    """Where a target and its drafters lie: folders that `vllm serve` and `--speculative-config` take as they are."""

    form: str
    target: Path
    drafters: Mapping[str, Path]


def write(form: str, folder: Path, *, vllm: str | None = None, drafters: Iterable[str] | None = None) -> ReferenceSet:
    """Put a target and drafters (all when None) below `folder`; what is already there and intact is left alone.

    `vllm` is the version that will serve them: the Kimi form brings an image processor of its own before 0.25. Each
    model appears whole or not at all, and two processes may call this at once. Raises UsageError for an unknown name,
    MissingError where the folder cannot be written, KitError if this machine does not make the expected bytes.
    """
    names = list(DRAFTERS) if drafters is None else list(dict.fromkeys(drafters))
    models = [target_name(form, vllm), *(f"drafters/{drafter_name(name)}" for name in names)]
    with files.locked(folder / ".lock", what=f"writing reference models to {folder}", wait=True):
        for model in models:
            if not intact(folder / model, digests()[model]):
                replace_folder(folder / model, checked_contents(model))
    return ReferenceSet(form, folder / models[0], {name: folder / "drafters" / name for name in names})


def target_name(form: str, vllm: str | None = None) -> str:
    """The folder name of a form for this version of vLLM."""
    if form not in FORMS:
        raise UsageError(f"no form of the reference target is called {form!r}", hint=f"use one of: {', '.join(FORMS)}")
    try:
        needs_processor = FORMS[form].multimodal and image_processor.needed(vllm)
    except InvalidVersion:
        raise UsageError(f"{vllm!r} is no version of vLLM", hint="write it as 0.32.0") from None
    return form + (OWN_PROCESSOR if needs_processor else "")


def drafter_name(name: str) -> str:
    """`name`, if it is a reference drafter's."""
    if name not in DRAFTERS:
        raise UsageError(f"no reference drafter is called {name!r}", hint=f"use one of: {', '.join(DRAFTERS)}")
    return name


def digests() -> dict[str, dict[str, str]]:
    """The SHA-256 that each file of each model has on every machine: model -> file -> hex."""
    loaded: dict[str, dict[str, str]] = json.loads(DIGESTS.read_text())
    return loaded


def contents(model: str) -> Contents:
    """The files of one model, named as below FOLDER: a form, with or without OWN_PROCESSOR, or drafters/NAME."""
    kind, _, name = model.partition("/")
    if kind == "drafters":
        return drafter_files(drafter_config(DRAFTERS[name]), drafter_weights(DRAFTERS[name]))
    form = FORMS[model.removesuffix(OWN_PROCESSOR)]
    made = {
        "config.json": json_bytes(form.config()),
        "model.safetensors": safetensors_bytes(form.weights()),
        "tokenizer.json": json_bytes(configs.tokenizer()),
        "tokenizer_config.json": json_bytes(configs.tokenizer_config()),
    }
    if model.endswith(OWN_PROCESSOR):
        made["preprocessor_config.json"] = json_bytes(configs.preprocessor(image_processor.AUTO_MAP))
        made[image_processor.FILE] = image_processor.SOURCE.encode()
    elif form.multimodal:
        made["preprocessor_config.json"] = json_bytes(configs.preprocessor())
    return made


def checked_contents(model: str) -> Contents:
    """`contents`, refused where a byte differs from what was proven on real servers."""
    made = contents(model)
    differing = [name for name, data in made.items() if sha256(data) != digests()[model].get(name)]
    if differing:
        raise KitError(
            f"reference model {model} came out with other bytes than it must have",
            evidence=differing,
            hint="after a deliberate change: python -m kit.reference, and prove it on a real server",
        )
    return made


def intact(folder: Path, expected: Mapping[str, str]) -> bool:
    """Whether `folder` holds exactly the expected files with the expected hashes."""
    try:
        return {path.name for path in folder.iterdir()} == set(expected) and all(
            files.sha256(folder / name) == digest for name, digest in expected.items()
        )
    except OSError:
        return False


def replace_folder(folder: Path, made: Contents) -> None:
    """Make `folder` hold exactly these files: written beside, then renamed, so that nobody sees a part of them."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as beside:
            new = Path(beside) / "new"
            new.mkdir(mode=0o755)
            for name, data in made.items():
                files.write(new / name, data)
            if folder.is_symlink() or folder.is_file():
                folder.unlink()
            elif folder.exists():
                folder.rename(Path(beside) / "old")
            new.rename(folder)
    except OSError as error:
        raise files.no_write(folder, error) from None


def drafter_files(config: configs.Json, weights: targets.Tensors) -> Contents:
    """The files of a drafter with this config and these weights."""
    return {"config.json": json_bytes(config), "model.safetensors": safetensors_bytes(weights)}


def json_bytes(value: configs.Json) -> bytes:
    """JSON in the one way it is written here."""
    return (json.dumps(value, indent=2, ensure_ascii=True) + "\n").encode()


def all_models() -> list[str]:
    """Every model that `contents` can make."""
    own = [form + OWN_PROCESSOR for form, made in FORMS.items() if made.multimodal]
    return [*FORMS, *own, *(f"drafters/{name}" for name in DRAFTERS)]
