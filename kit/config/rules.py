"""Faults that need more than one value of kit.yaml to see; pure."""

from __future__ import annotations

from collections.abc import Iterator

from kit.config.schema import Kit
from kit.config.tree import KeyPath

# flags that the kit writes itself, and the key that sets each
OWNED_FLAGS = {
    "--model": "model.path",
    "--served-model-name": "model.served_name",
    "--max-model-len": "model.max_model_len",
    "--dtype": "model.dtype",
    "--quantization": "model.quantization",
    "--kv-cache-dtype": "model.kv_cache_dtype",
    "--trust-remote-code": "model.trust_remote_code",
    "--speculative-config": "speculative",
    "--tensor-parallel-size": "parallel.tensor",
    "--pipeline-parallel-size": "parallel.pipeline",
    "--enable-expert-parallel": "parallel.expert",
    "--gpu-memory-utilization": "gpus.memory_utilization",
    "--host": "server.host",
    "--port": "server.port",
    "--api-key": "server.api_key_file",
    "--enforce-eager": "engine.enforce_eager",
    "--max-num-seqs": "engine.max_num_seqs",
    "--max-num-batched-tokens": "engine.max_num_batched_tokens",
}
SHORT_FLAGS = {"-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size", "-q": "--quantization"}
SHORT_FLAGS |= {"-sc": "--speculative-config"}
SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
LOOPBACK = ("127.", "localhost", "::1")


def cross_faults(kit: Kit) -> Iterator[tuple[KeyPath, str]]:
    """Each contradiction as (key path, what is wrong and what to do)."""
    yield from _models(kit)
    yield from _devices(kit)
    yield from _engine(kit)
    yield from _server(kit)
    if kit.speculative and len(kit.smoke.gates.per_position) > kit.speculative.num_speculative_tokens:
        yield (
            ("smoke", "gates", "per_position"),
            f"has more positions than speculative.num_speculative_tokens ({kit.speculative.num_speculative_tokens})",
        )


def _models(kit: Kit) -> Iterator[tuple[KeyPath, str]]:
    if (kit.model.path is None) == (kit.model.reference is None):
        yield ("model",), "needs one of `path` and `reference`, and not both"
    if kit.speculative is None:
        return
    drafter = kit.speculative.drafter
    if (drafter.path is None) == (drafter.reference is None):
        yield ("speculative", "drafter"), "needs one of `path` and `reference`, and not both"
    elif drafter.reference and not kit.model.reference:
        yield ("speculative", "drafter", "reference"), "a reference drafter fits only a reference model"
    if kit.speculative.method == "eagle3" and kit.parallel.pipeline > 1:
        yield (
            ("parallel", "pipeline"),
            f"{kit.parallel.pipeline} with EAGLE-3: the drafter's auxiliary states of all but the last rank are lost; "
            "set it to 1 and raise parallel.tensor",
        )
    size = kit.speculative.tensor_parallel
    if size not in (None, 1, kit.parallel.tensor):
        yield ("speculative", "tensor_parallel"), f"must be 1 or parallel.tensor ({kit.parallel.tensor})"


def _devices(kit: Kit) -> Iterator[tuple[KeyPath, str]]:
    ranks = kit.parallel.tensor * kit.parallel.pipeline
    if kit.engine.device == "cpu" and kit.gpus.count:
        yield ("gpus", "count"), "must be 0 when engine.device is cpu"
    if kit.engine.device == "cuda" and kit.gpus.count < ranks:
        yield (
            ("gpus", "count"),
            f"{kit.gpus.count} GPUs for parallel.tensor x parallel.pipeline = {ranks} ranks: each rank needs one",
        )
    named = kit.gpus.devices
    if named != "all" and len(named) < kit.gpus.count:
        yield ("gpus", "devices"), f"{len(named)} named, gpus.count is {kit.gpus.count}: each must be there"


def _engine(kit: Kit) -> Iterator[tuple[KeyPath, str]]:
    engine = kit.engine
    if engine.existing and engine.image:
        yield ("engine", "existing"), "and engine.image exclude each other: an image is built or exists"
    if engine.existing and isinstance(engine.patches, list) and engine.patches:
        yield ("engine", "patches"), "cannot be baked into engine.existing; build an image, or leave them out"
    for index, arg in enumerate(engine.args):
        flag = arg.split("=", 1)[0].replace("_", "-")
        owner = OWNED_FLAGS.get(SHORT_FLAGS.get(flag, flag))
        if owner:
            yield ("engine", "args", index), f"{flag} is set by {owner}; set that key instead"
    for name in engine.env:
        if any(word in name.upper().split("_") for word in SECRET_WORDS):
            yield (
                ("engine", "env", name),
                "looks like a secret; kit.yaml is copied into bundles. Use server.api_key_file",
            )


def _server(kit: Kit) -> Iterator[tuple[KeyPath, str]]:
    if not kit.server.host.startswith(LOOPBACK) and kit.server.api_key_file is None:
        yield ("server", "host"), "is open to the network: that needs server.api_key_file"
    seen: set[str] = {"/model", "/drafter", "/cache", "/kit", "/run/secrets", "/opt/kit", "/opt/venv", "/tmp", "/"}
    for index, mount in enumerate(kit.mounts):
        target = mount.target.rstrip("/") or "/"
        if target in seen:
            yield ("mounts", index, "target"), f"{mount.target} is already taken"
        seen.add(target)
