"""From a deployment and the cards there are to what the plan takes. Edge: asks NVML and reads model headers."""

from __future__ import annotations

from kit.config import Deployment
from kit.config.schema import parse_size
from kit.errors import KitError, MissingError, UsageError
from kit.gpu.known import known_gpu
from kit.gpu.snapshot import Snapshot
from kit.model import ModelFacts
from kit.plan.setup import GIB, Card, Setup

MIB = 1 << 20
RESERVED_SHARE = 0.0065  # of a card, by the driver: 0.65 % on an RTX PRO 6000 with ECC, 0.43 % on an H200
TYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
KV_TYPE_BYTES = {"auto": None, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1, "bfloat16": 2, "float16": 2}
CPU_KV_GIB = 4  # vLLM's default where VLLM_CPU_KVCACHE_SPACE is not set


def setup_of(deployment: Deployment, target: ModelFacts, card: Card | None) -> Setup:
    """The setup that kit.yaml asks for; `card` is None on the CPU."""
    kit = deployment.kit
    config = target.config
    said = config.dtype if config and kit.model.dtype == "auto" else kit.model.dtype
    if kit.engine.device == "cuda" and kit.model.dtype == "auto" and said == "float32":
        said = "bfloat16"  # vLLM does not serve float32 checkpoints as such unless told to
    space = kit.engine.env.get("VLLM_CPU_KVCACHE_SPACE", "")
    return Setup(
        card=card,
        count=max(kit.gpus.count, 1),
        tensor=kit.parallel.tensor,
        pipeline=kit.parallel.pipeline,
        expert=kit.parallel.expert,
        utilization=kit.gpus.memory_utilization,
        max_model_len=kit.model.max_model_len,
        max_num_seqs=kit.engine.max_num_seqs,
        max_num_batched_tokens=kit.engine.max_num_batched_tokens,
        dtype_bytes=TYPE_BYTES.get(str(said), 2),
        kv_dtype_bytes=KV_TYPE_BYTES.get(kit.model.kv_cache_dtype or "auto"),
        eager=kit.engine.enforce_eager,
        mla=kit.engine.env.get("VLLM_MLA_DISABLE") != "1",
        kv_bytes=int(float(space if space.replace(".", "", 1).isdigit() else CPU_KV_GIB) * GIB),
        vllm=kit.engine.vllm,
    )


def card_of(
    deployment: Deployment, snapshot: Snapshot | None, size_given: str | None = None
) -> tuple[Card | None, str]:
    """The card to plan for, and where its size comes from; None on the CPU.

    A size given by hand ("95GiB"); else the smallest of the cards that are there; else the one that kit.yaml names, if
    it is known. UsageError where the size is none, MissingError where there is no card.
    """
    kit = deployment.kit
    if size_given:
        try:
            return Card("a card of this size", parse_size(size_given)), "--card-memory"
        except ValueError as error:
            raise UsageError(f"--card-memory {size_given}: {error}", hint="kit plan --card-memory 95GiB") from None
    if kit.engine.device == "cpu":
        return None, "no cards: the CPU"
    sizes = [
        (gpu.memory_mib.total - (gpu.memory_mib.reserved or int(gpu.memory_mib.total * RESERVED_SHARE)), gpu.name)
        for gpu in (snapshot.gpus if snapshot else ())
        if gpu.memory_mib.total
    ]
    if sizes:
        size, name = min(sizes)
        return Card(name or "unknown", size * MIB), "the smallest card in this machine"
    known = known_gpu(kit.gpus.name)
    if known:
        size = int(known.memory_mib * (1 - RESERVED_SHARE))
        return Card(known.name_prefix, size * MIB), "a known card: its total less 0.65 % that the driver keeps"
    raise MissingError(
        "no GPU is visible, and kit.yaml names none that is known",
        hint="kit plan --card-memory 95GiB plans for a card of that size",
    )


def snapshot_or_none(deployment: Deployment) -> Snapshot | None:
    """The cards there are; None for a deployment on the CPU, or where the driver cannot be asked."""
    if deployment.kit.engine.device == "cpu":
        return None
    from kit.gpu.probe import probe

    try:
        return probe()
    except KitError:
        return None
