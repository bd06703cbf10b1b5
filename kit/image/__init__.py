"""Images: what they are made of (recipe), building them (build), and proving what they are (verify)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kit.config import Deployment


def reference(deployment: Deployment) -> str:
    """The name of the image that this deployment's recipe builds; it holds a digest of every input."""
    from kit.image.load import for_deployment

    return for_deployment(deployment).reference
