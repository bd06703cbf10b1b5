"""The memory plan of a model on some cards: does it fit, how long may a context be, how many requests at once. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from kit.model.findings import Finding
from kit.model.target import ModelFacts
from kit.model.weights import Group
from kit.plan.kv_cache import block_tokens, bytes_per_token, tokens_that_fit
from kit.plan.layout import judge_layout, tensor_sizes
from kit.plan.overheads import Allowance, allowances
from kit.plan.setup import GIB, Setup
from kit.plan.weights import Share, absorbed_projections, weights_per_rank

MOST_ALTERNATIVES = 3


@dataclass(frozen=True)
class Plan:
    """What one rank will hold, in bytes, and what that allows.

    `budget` is gpu_memory_utilization's share of the card (the KV cache alone on the CPU). `kv_memory` is what is left
    of it for the KV cache, negative when the rest does not fit. `longest` is the longest context that one request can
    have; `concurrency` how many requests of `context` tokens fit at once.
    """

    setup: Setup
    target: Share
    drafter: Share | None
    absorbed: int
    allowances: tuple[Allowance, ...]
    budget: int
    kv_memory: int
    kv_per_token: int
    tokens: int
    context: int
    longest: int
    concurrency: float
    findings: tuple[Finding, ...]
    assumptions: tuple[str, ...]

    @property
    def weights(self) -> int:
        """Bytes of all weights on one rank: what vLLM prints as "Model loading took"."""
        return self.target.total + (self.drafter.total if self.drafter else 0) + self.absorbed

    @property
    def fits(self) -> bool:
        """Whether it will start and serve the context asked for."""
        return not self.findings


def make_plan(target: ModelFacts, drafter: ModelFacts | None, setup: Setup) -> Plan:
    """The plan for a target and drafter whose configs could be read; ValueError where one could not."""
    config = target.config
    if config is None or (drafter and drafter.config is None):
        raise ValueError("a plan needs the config of each model")
    draft_config = drafter.config if drafter else None
    draft_text = draft_config.text if draft_config else None
    groups = loaded_groups(target)
    share = weights_per_rank(groups, config, setup)
    draft_share = weights_per_rank(drafter.weights.groups, draft_config, setup) if drafter and draft_config else None
    absorbed = absorbed_projections(config.text, setup)
    spare = tuple(allowances(config.text, setup, drafter is not None))
    weights = share.total + (draft_share.total if draft_share else 0) + absorbed
    if setup.card is None:
        budget = kv_memory = setup.kv_bytes or 0
    else:
        budget = int(setup.card.total * setup.utilization)
        kv_memory = budget - weights - sum(item.nbytes for item in spare if item.inside)
    per_token = bytes_per_token(config.text, setup)
    if draft_text:
        per_token += bytes_per_token(draft_text, setup, drafter=True)
    tokens = tokens_that_fit(kv_memory, per_token, block_tokens(config.text, setup))
    limit = config.text.max_position_embeddings
    context = setup.max_model_len or limit or 0
    findings = judge_layout(config.text, setup, draft_text)
    findings += _judge_memory(setup, weights, spare, kv_memory, tokens, context, per_token)
    if limit and context > limit:
        text, fix = f"a context of {context:,}; the model has {limit:,} positions", f"model.max_model_len: {limit}"
        findings.append(Finding("context-too-long", "fail", text, f"at most {limit:,}", fix))
    return Plan(
        setup=setup,
        target=share,
        drafter=draft_share,
        absorbed=absorbed,
        allowances=spare,
        budget=budget,
        kv_memory=kv_memory,
        kv_per_token=per_token,
        tokens=tokens,
        context=context,
        longest=min(tokens, limit or tokens),
        concurrency=tokens / context if context else 0.0,
        findings=tuple(findings),
        assumptions=tuple(_assumptions(target, drafter, setup)),
    )


def loaded_groups(target: ModelFacts) -> tuple[Group, ...]:
    """The target's tensors without those that vLLM leaves alone: layers beyond the last, for multi-token prediction."""
    config, weights = target.config, target.weights
    layers = config.text.num_hidden_layers if config else None
    if not layers or not any(f".layers.{layers}." in name for name in weights.tensors):
        return weights.groups
    return weights.without_layers_from(layers)


def alternatives(target: ModelFacts, drafter: ModelFacts | None, setup: Setup) -> list[tuple[dict[str, str], Plan]]:
    """The nearest settings that fit: those with the fewest changes to kit.yaml, as {key: value} with their plans."""
    options = list(_changes(target, drafter, setup))
    for size in (1, 2, 3):
        found: dict[frozenset[str], tuple[dict[str, str], Plan]] = {}
        for chosen in itertools.combinations(options, size):
            keys = {key: value for key, value, _ in chosen}
            if len(keys) < size or frozenset(keys) in found:  # of one key the mildest value that fits is enough
                continue
            fields = {name: value for _, _, change in chosen for name, value in change.items()}
            plan = make_plan(target, drafter, setup.but(**fields))
            if plan.fits:
                found[frozenset(keys)] = (keys, plan)
        if found:
            return list(found.values())[:MOST_ALTERNATIVES]
    return []


def _changes(
    target: ModelFacts, drafter: ModelFacts | None, setup: Setup
) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Single changes worth trying, the least painful first: (key of kit.yaml, value, fields of Setup)."""
    config = target.config
    if config is None or setup.card is None:
        return
    if setup.sequences > 64:
        yield "engine.max_num_seqs", "64", {"max_num_seqs": 64}
    if setup.batched_tokens > 2048:
        yield "engine.max_num_batched_tokens", "2048", {"max_num_batched_tokens": 2048}
    for share in (0.92, 0.95):
        if setup.utilization < share:
            yield "gpus.memory_utilization", str(share), {"utilization": share}
    context = setup.max_model_len or config.text.max_position_embeddings or 0
    length = 1 << max(context - 1, 1).bit_length() - 1  # the next power of two below
    while length >= 4096:
        yield "model.max_model_len", str(length), {"max_model_len": length}
        length //= 2
    if (setup.kv_dtype_bytes or setup.dtype_bytes) > 1:
        yield "model.kv_cache_dtype", "fp8", {"kv_dtype_bytes": 1}
    draft_text = drafter.config.text if drafter and drafter.config else None
    for ranks in tensor_sizes(config.text, draft_text, setup.count, expert=setup.expert):
        if ranks > setup.tensor:
            yield "parallel.tensor", str(ranks), {"tensor": ranks}


def cards_needed(target: ModelFacts, drafter: ModelFacts | None, setup: Setup, most: int = 64) -> int | None:
    """The fewest cards of this kind on which it fits by tensor parallelism alone; None up to `most`."""
    if target.config is None or setup.card is None:
        return None
    draft_text = drafter.config.text if drafter and drafter.config else None
    for ranks in tensor_sizes(target.config.text, draft_text, most, expert=setup.expert):
        if make_plan(target, drafter, setup.but(tensor=ranks, count=ranks, pipeline=1)).fits:
            return ranks
    return None


def _judge_memory(
    setup: Setup,
    weights: int,
    spare: tuple[Allowance, ...],
    kv_memory: int,
    tokens: int,
    context: int,
    per_token: int,
) -> list[Finding]:
    findings = []
    if setup.card:
        outside = sum(item.nbytes for item in spare if not item.inside)
        free = setup.card.total - int(setup.card.total * setup.utilization)
        if outside > free:
            most = int((1 - outside / setup.card.total) * 100) / 100
            text = (
                f"{free / GIB:.1f} GiB outside gpu_memory_utilization for {outside / GIB:.1f} GiB of context and NCCL"
            )
            fix = f"gpus.memory_utilization: {most}"
            findings.append(Finding("utilization-too-high", "fail", text, "room for both", fix))
    if kv_memory <= 0:
        short = -kv_memory / GIB
        text = f"{weights / GIB:.1f} GiB of weights on each card, {short:.1f} GiB more than there is room for"
        fix = "parallel.tensor: more cards, or a smaller quantization"
        findings.append(Finding("weights-too-large", "fail", text, "weights and room for the KV cache", fix))
    elif context and tokens < context:
        need = context * per_token / GIB
        text = (
            f"{kv_memory / GIB:.2f} GiB of KV cache hold {tokens:,} tokens; one context of {context:,} needs {need:.2f}"
        )
        findings.append(
            Finding("kv-cache-too-small", "fail", text, f"{context:,} tokens", f"model.max_model_len: {tokens}")
        )
    return findings


def _assumptions(target: ModelFacts, drafter: ModelFacts | None, setup: Setup) -> Iterator[str]:
    yield "weights that are not quantized are held in the type of the activations; quantized ones as stored"
    yield f"the vocabulary is padded to a multiple of 64 and split over {setup.tensor} ranks"
    config = target.config
    if config and config.text.mla:
        yield (
            "MLA: the KV cache and the down projections are the same on every rank"
            if setup.mla
            else "MLA runs as plain attention: full keys and values, values padded to the size of the keys"
        )
    if config and config.multimodal:
        yield "vision parts are whole on every rank; images in flight are not counted"
    if config and config.text.sliding_window:
        yield "every layer keeps the whole context, sliding windows or not"
    if drafter:
        yield "the drafter keeps an embedding and an lm_head of its own where its files hold them"
    for allowance in allowances(config.text, setup, drafter is not None) if config else ():
        place = "inside" if allowance.inside else "outside"
        yield f"{allowance.name}: {allowance.nbytes / GIB:.2f} GiB {place} the share: {allowance.source}"
