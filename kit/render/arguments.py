"""The command line and environment of `vllm serve` for a deployment; pure."""

from __future__ import annotations

import json
from typing import Any

from kit.advice import accepted
from kit.config import Deployment

# Nothing is fetched and nothing is reported home; models are folders on this machine.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
# NCCL says why it fails only when asked to; it says nothing else then but its version.
RANKS = {"NCCL_DEBUG": "WARN"}
# A crash in native code, and a start that hangs and is given up, then print the Python stacks of all threads.
STACKS = {"PYTHONFAULTHANDLER": "1"}


def environment(deployment: Deployment) -> dict[str, str]:
    """The engine's environment: the kit's own, accepted advice, then kit.yaml's, which wins; sorted by name."""
    kit, advice = deployment.kit, accepted(deployment)
    several = kit.engine.device == "cuda" and kit.parallel.tensor * kit.parallel.pipeline > 1
    own = {**OFFLINE, **STACKS, **(RANKS if several else {})}
    return dict(sorted({**own, **(advice.env if advice else {}), **kit.engine.env}.items()))


def serve_arguments(deployment: Deployment) -> list[tuple[str, ...]]:
    """The options after `vllm serve MODEL`, one tuple for a flag and its value.

    Address, port and the speculative settings are left out: they differ inside and outside a
    container, and the launch script adds them.
    """
    kit = deployment.kit
    engine, model, parallel = kit.engine, kit.model, kit.parallel
    options: list[tuple[str, Any]] = [
        ("--served-model-name", model.served_name),
        ("--dtype", None if model.dtype == "auto" else model.dtype),
        ("--max-model-len", model.max_model_len),
        ("--quantization", model.quantization),
        ("--kv-cache-dtype", model.kv_cache_dtype),
        ("--tensor-parallel-size", parallel.tensor if parallel.tensor > 1 else None),
        ("--pipeline-parallel-size", parallel.pipeline if parallel.pipeline > 1 else None),
        ("--gpu-memory-utilization", kit.gpus.memory_utilization if engine.device == "cuda" else None),
        ("--max-num-seqs", engine.max_num_seqs),
        ("--max-num-batched-tokens", engine.max_num_batched_tokens),
    ]
    switches = [
        ("--trust-remote-code", model.trust_remote_code),
        ("--enable-expert-parallel", parallel.expert),
        ("--enforce-eager", engine.enforce_eager),
    ]
    rows: list[tuple[str, ...]] = [(flag, str(value)) for flag, value in options if value is not None]
    rows += [(flag,) for flag, wanted in switches if wanted]
    return rows + [(argument,) for argument in engine.args]


def speculative_config(deployment: Deployment, drafter: str) -> str | None:
    """The JSON of --speculative-config for a drafter at path `drafter`; None without one."""
    speculative = deployment.kit.speculative
    if speculative is None:
        return None
    config: dict[str, Any] = {
        "method": speculative.method,
        "model": drafter,
        "num_speculative_tokens": speculative.num_speculative_tokens,
    }
    if speculative.tensor_parallel is not None:
        config["draft_tensor_parallel_size"] = speculative.tensor_parallel
    return json.dumps(config, ensure_ascii=False)
