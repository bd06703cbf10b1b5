"""From a deployment to what the judgements here need of it."""

from __future__ import annotations

from kit.config import Deployment
from kit.model.drafter import Use


def use_of(deployment: Deployment) -> Use:
    """How this deployment will use its drafter."""
    return Use(vllm=deployment.kit.engine.vllm, max_model_len=deployment.kit.model.max_model_len)
