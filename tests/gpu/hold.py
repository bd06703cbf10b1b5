"""Holds GPU memory as another program would, until its input ends. Runs under the machine's own Python.

python hold.py GIB CARD
"""

import sys

import torch

block = torch.empty(int(sys.argv[1]) << 30, dtype=torch.uint8, device=f"cuda:{sys.argv[2]}")
print(f"holding {block.numel() >> 30} GiB", flush=True)
sys.stdin.read()
