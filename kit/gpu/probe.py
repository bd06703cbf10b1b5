"""The probe: asks NVML and the kernel once, and returns one `Snapshot`."""

from __future__ import annotations

from pathlib import Path

from kit.gpu.build import build
from kit.gpu.collect import CALL_LIMIT_S, collect
from kit.gpu.records import Record
from kit.gpu.snapshot import Snapshot
from kit.host import kernel, pci, processes
from kit.host.root import host_root


def probe(call_limit_s: float = CALL_LIMIT_S, root: Path | None = None) -> Snapshot:
    """Look at the cards of this machine. Never raises about them: what does not answer is in the snapshot's gaps."""
    root = root or host_root()
    records = collect(call_limit_s)
    cards = pci.nvidia_cards(root)
    return build(
        records,
        numa_nodes={card.bus_id: card.numa_node for card in cards or () if card.numa_node is not None},
        holders={pid: processes.holder(root, pid) for pid in _pids(records)},
        kernel_module=kernel.nvidia_module(root),
        pci_bus_ids=[card.bus_id for card in cards] if cards is not None and _sees_all(root, len(cards)) else None,
        xids=kernel.xids(root),
    )


def _sees_all(root: Path, cards: int) -> bool:
    """Whether the driver's device nodes here are of all the machine's cards: a container may have some, and sees
    the whole PCI bus all the same."""
    nodes = [path for path in (root / "dev").glob("nvidia[0-9]*") if path.name[6:].isdigit()]
    return len(nodes) >= cards


def _pids(records: list[Record]) -> set[int]:
    return {item["pid"] for r in records if r.field.endswith("_processes") and r.value for item in r.value}
