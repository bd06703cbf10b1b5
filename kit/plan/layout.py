"""Whether a model can be cut into the parts that a layout asks for: heads, key and value heads, experts, layers."""

from __future__ import annotations

from kit.model.config import TextConfig
from kit.model.findings import Finding
from kit.plan.setup import Setup


def judge_layout(config: TextConfig, setup: Setup, drafter: TextConfig | None = None) -> list[Finding]:
    """What does not divide, and which tensor parallel sizes would."""
    found: list[Finding] = []
    ranks = setup.tensor
    if setup.card and ranks * setup.pipeline > setup.count:
        text = f"tensor {ranks} x pipeline {setup.pipeline} = {ranks * setup.pipeline} ranks for {setup.count} cards"
        found.append(_finding(text, "as many ranks as cards, or fewer", f"parallel.tensor: {setup.count}"))
    sizes = tensor_sizes(config, drafter, setup.count if setup.card else max(ranks, 1), expert=setup.expert)
    advice = f"parallel.tensor: one of {', '.join(map(str, sizes))}"
    for role, part in (("target", config), ("drafter", drafter)):
        if part is None:
            continue
        heads, key_heads = part.num_attention_heads, part.kv_heads
        if heads and heads % ranks:
            found.append(_finding(f"{heads} attention heads of the {role} over {ranks} ranks", "whole heads", advice))
        elif key_heads and not part.mla and key_heads % ranks and ranks % key_heads:
            text = f"{key_heads} key and value heads of the {role} over {ranks} ranks"
            found.append(_finding(text, "whole heads, or whole copies of each", advice))
    inner = config.moe_intermediate_size if config.num_experts and not setup.expert else config.intermediate_size
    if inner and inner % ranks:
        found.append(_finding(f"an intermediate size of {inner} over {ranks} ranks", "whole columns", advice))
    if setup.expert and config.num_experts and config.num_experts % ranks:
        text = f"{config.num_experts} experts over {ranks} ranks"
        found.append(_finding(text, "as many on each", "parallel.expert: false, or another parallel.tensor"))
    if setup.pipeline > 1 and drafter is not None:
        text = f"pipeline {setup.pipeline} with EAGLE-3: the auxiliary states of all but the last rank are lost"
        found.append(_finding(text, "no pipeline parallelism with a drafter", "parallel.pipeline: 1"))
    return found


def tensor_sizes(config: TextConfig, drafter: TextConfig | None, most: int, *, expert: bool = False) -> list[int]:
    """The tensor parallel sizes up to `most` that both models divide into."""
    found = []
    for ranks in range(1, most + 1):
        ok = True
        for part in (config, drafter):
            if part is None:
                continue
            heads, key_heads = part.num_attention_heads or ranks, part.kv_heads or ranks
            ok &= heads % ranks == 0 and (part.mla or key_heads % ranks == 0 or ranks % key_heads == 0)
        inner = config.moe_intermediate_size if config.num_experts and not expert else config.intermediate_size
        if ok and not (inner or ranks) % ranks:
            found.append(ranks)
    return found


def _finding(found: str, want: str, fix: str) -> Finding:
    return Finding("parallel-layout", "fail", found, want, fix)
