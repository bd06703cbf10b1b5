"""The stand-in answers as the real machines did whose dumps lie in tests/data/nvml."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.gpu.document import as_document
from kit.gpu.probe import probe
from kit.gpu.snapshot import anonymous

DATA = Path(__file__).parents[2] / "data/nvml"
# What a library cannot stand in for: the kernel's own files, and the time the asking took.
OF_THE_KERNEL = {"kernel_module", "pci_bus_ids", "xids", "nvml_seconds"}


@pytest.mark.parametrize("name", ["h200-1-guest", "h200-2-guest"])
def test_h200(machine, name):
    real = json.loads((DATA / f"{name}.gpus.json").read_text())
    machine(name)
    document = json.loads(json.dumps(as_document(anonymous(probe(60.0)), [])))
    for key in real.keys() - OF_THE_KERNEL:
        assert document[key] == real[key], key
