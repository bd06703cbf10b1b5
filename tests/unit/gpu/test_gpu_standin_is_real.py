"""The stand-in answers as the real machine did whose dump lies in tests/data/nvml."""

from __future__ import annotations

import json
from pathlib import Path

from kit.gpu.document import as_document
from kit.gpu.probe import probe
from kit.gpu.snapshot import anonymous

REAL = json.loads((Path(__file__).parents[2] / "data/nvml/h200-1-guest.gpus.json").read_text())
# What a library cannot stand in for: the kernel's own files, and the time the asking took.
OF_THE_KERNEL = {"kernel_module", "pci_bus_ids", "xids", "nvml_seconds"}


def test_one_h200(machine):
    machine("h200-1-guest")
    document = json.loads(json.dumps(as_document(anonymous(probe(60.0)), [])))
    for key in REAL.keys() - OF_THE_KERNEL:
        assert document[key] == REAL[key], key
