"""The twin of a deployment: same vLLM, same patches, same speculation, but tiny models and no GPU. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kit.config import Kit
from kit.errors import UsageError
from kit.patches.catalog import Catalog

FORMS = {
    "kimi_k25": "kimi-k2.5",
    "kimi_k2": "deepseek-v3",
    "deepseek_v3": "deepseek-v3",
    "llama": "llama",
}
"""`model_type` of a real target -> the reference form that takes the same way through vLLM."""

DRAFTER = "aux"  # right only if every auxiliary state is right
CPU_ENV = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_MLA_DISABLE": "1",  # MLA on the CPU has blocks of 16, a Llama drafter needs multiples of 32
}
WATCHER = "/opt/rehearse"
WATCH = ("--worker-extension-cls", "states.AuxiliaryStates")
WATCHING = {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": WATCHER}  # the API may then call the watcher's methods


def form_for(kit: Kit, model_type: str | None) -> str:
    """The reference form for a deployment's target. `model_type` is that of its config.json, where it was read.

    Raises UsageError when no form is like the target.
    """
    if kit.model.reference:
        return kit.model.reference
    if model_type in FORMS:
        return FORMS[model_type]
    what = f"a target of type {model_type!r}" if model_type else f"{kit.model.path}, which is not on this machine"
    raise UsageError(f"which reference form stands for {what}?", hint="kit rehearse --form kimi-k2.5|deepseek-v3|llama")


def recipe_for(vllm: str, changes: Catalog) -> str:
    """The image recipe of the CPU twin: the plain CPU image where it speculates of its own."""
    needed = any(patch.needed_by(vllm) for patch in changes.patches.values())
    return "vllm-cpu-rehearsal" if needed else "vllm-cpu"


def cpu_twin(kit: Kit, form: str, recipe: str, *, port: int, watcher: Path, tensor: int = 1) -> dict[str, Any]:
    """kit.yaml of the twin on the CPU, as plain data. `watcher` is the folder of states.py on this machine.

    It runs without compilation, so that the watcher's hooks are called. Raises UsageError for a deployment that
    does not speculate.
    """
    values = _common(kit, form, port)
    values["engine"] |= {
        "device": "cpu",
        "image": recipe,
        "env": CPU_ENV | WATCHING,
        "args": list(WATCH),
        "enforce_eager": True,
    }
    values["model"]["dtype"] = "float32"  # bfloat16 uses AMX, which some hypervisors announce but do not run
    values["parallel"] = {"tensor": tensor}
    values["limits"]["memory"] = f"{6 + 2 * tensor}GiB"
    values["mounts"] = [{"source": str(watcher), "target": WATCHER}]
    return values


def gpu_twin(kit: Kit, form: str, *, port: int) -> dict[str, Any]:
    """kit.yaml of the twin on one GPU: the production image itself, compiled as in production, and not watched.

    Raises UsageError for a deployment without GPUs or without speculation.
    """
    if kit.engine.device != "cuda":
        raise UsageError("this deployment has no GPUs to rehearse on", hint="kit rehearse (without --gpu)")
    values = _common(kit, form, port)
    engine = kit.engine.model_dump(include={"image", "existing", "env", "args", "enforce_eager"}, exclude_none=True)
    values["engine"] |= {"device": "cuda", **engine}
    if kit.engine.existing:
        values["engine"].pop("patches")
    values["model"]["dtype"] = "bfloat16"
    values["gpus"] = {"count": 1, "name": kit.gpus.name, "access": kit.gpus.access, "devices": ["0"]}
    if isinstance(kit.gpus.devices, list):
        values["gpus"]["devices"] = kit.gpus.devices[:1]
    return values


def _common(kit: Kit, form: str, port: int) -> dict[str, Any]:
    """What twins of both kinds share."""
    if kit.speculative is None:
        raise UsageError("this deployment does not speculate: there is nothing to rehearse", hint="kit up")
    return {
        "schema": "kit/1",
        "name": f"{kit.name[:30].rstrip('-')}-rehearsal",
        "engine": {"vllm": kit.engine.vllm, "patches": kit.engine.patches, "max_num_seqs": 4},
        "model": {
            "reference": form,
            "served_name": kit.model.served_name,
            "max_model_len": 512,
            "trust_remote_code": True,
        },
        "speculative": {
            "method": kit.speculative.method,
            "drafter": {"reference": DRAFTER},
            "num_speculative_tokens": kit.speculative.num_speculative_tokens,
        },
        "server": {"host": "127.0.0.1", "port": port},
        "limits": {"shm": "1GiB", "tmp": "1GiB", "start_timeout": 900, "stall_timeout": 300, "restarts": 0},
        "caches": {"volume": False},
        "smoke": {"max_tokens": 100},
    }


def with_files(values: Mapping[str, Any], image: str, site: str, files: Mapping[str, Path]) -> dict[str, Any]:
    """A twin that runs `image` as it is, with some of vLLM's files laid over: path below `site` -> file here.

    The image's own entry point would refuse such files, so the launch script runs in its place. Their bytecode in
    the image is hidden behind empty folders, `hidden` in the folder of each file's stand-in.
    """
    folders = sorted({path.rpartition("/")[0] for path in files})
    mounts = [{"source": str(here), "target": f"{site}/{path}"} for path, here in sorted(files.items())]
    empty = [
        {"source": str(next(iter(files.values())).parent / "hidden"), "target": f"{site}/{folder}/__pycache__"}
        for folder in folders
    ]
    engine = {key: value for key, value in values["engine"].items() if key not in ("image", "patches")}
    return {
        **values,
        "engine": engine | {"existing": image},
        "mounts": [*values.get("mounts", []), *mounts, *(empty if files else [])],
    }
