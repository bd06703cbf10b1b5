"""The ways between the cards as others see them, to hold `kit probe` against: nvidia-smi's matrix, CUDA's peer access.

CUDA is asked by the machine's own PyTorch.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from kit import proc

# Peer access from each card to each, and how fast a copy of 1 GiB is, GiB a second (the best of five).
ASK_CUDA = """
import json, time, torch
cards = range(torch.cuda.device_count())
peers = [[None if a == b else torch.cuda.can_device_access_peer(a, b) for b in cards] for a in cards]
rates = [[None] * len(cards) for _ in cards]
for a in cards:
    block = torch.ones(1 << 30, dtype=torch.uint8, device=f"cuda:{a}")
    for b in cards:
        if a != b:
            there, best = torch.empty_like(block, device=f"cuda:{b}"), 9.0
            for _ in range(6):
                torch.cuda.synchronize(a), torch.cuda.synchronize(b)
                began = time.perf_counter()
                there.copy_(block)
                torch.cuda.synchronize(a), torch.cuda.synchronize(b)
                best = min(best, time.perf_counter() - began)
            assert bool((there == 1).all())
            rates[a][b] = round(1 / best)
print(json.dumps({"peers": peers, "gib_per_s": rates}))
"""


def count() -> int:
    """How many cards the driver shows as device files."""
    return sum(bool(re.fullmatch(r"nvidia\d+", path.name)) for path in Path("/dev").glob("nvidia*"))


def against(probe: dict[str, Any]) -> dict[str, Any]:
    """What nvidia-smi and CUDA say of the ways, and whether the probe says the same."""
    matrix = topology(proc.run(["nvidia-smi", "topo", "-m"], check=False).out)
    cuda = json.loads(proc.run([os.environ["MACHINE_PYTHON"], "-c", ASK_CUDA]).out.splitlines()[-1])
    access = [[cell and cell["read"] == cell["write"] == "ok" for cell in row] for row in probe.get("p2p", [])]
    return {
        "nvidia_smi": matrix,
        "cuda": cuda,
        "as_nvidia_smi": matrix == probe.get("links"),
        "as_cuda": cuda["peers"] == access,
    }


def topology(text: str) -> list[list[str]]:
    """The matrix of the cards in what `nvidia-smi topo -m` prints."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    rows = [line.split("\t") for line in plain.splitlines() if re.match(r"GPU\d+\t", line)]
    return [[cell.strip() for cell in row[1 : len(rows) + 1]] for row in rows]
