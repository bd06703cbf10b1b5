"""What the lock of an image recipe says of the CUDA that the image will hold."""

from __future__ import annotations

import re
from pathlib import Path

RUNTIME = re.compile(r"^nvidia-cuda-runtime(?:-cu\d+)?==(\d+\.\d+)", re.MULTILINE)


def cuda_of(recipe: Path, vllm: str) -> str | None:
    """The CUDA version (`12.8`) in the locked requirements of one vLLM below a recipe's folder; None where none is."""
    for path in sorted((recipe / vllm).glob("*.lock")) + sorted((recipe / vllm).glob("*.txt")):
        found = RUNTIME.search(path.read_text(errors="replace"))
        if found:
            return found[1]
    return None
