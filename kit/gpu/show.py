"""A snapshot for people: cards, link matrix, tree, findings. Text in, text out; nothing is judged here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kit.gpu import topology
from kit.gpu.findings import Finding, size
from kit.gpu.rules_cards import describe
from kit.gpu.snapshot import Gpu, Snapshot, normal_bus_id

UNKNOWN = "-"
COLUMNS: list[tuple[str, Callable[[Gpu], str]]] = [
    ("GPU", lambda g: str(g.index)),
    ("name", lambda g: g.name or f"({g.state})"),
    ("bus", lambda g: normal_bus_id(g.bus_id) if g.bus_id else UNKNOWN),
    ("free", lambda g: _gib(g.memory_mib.free)),
    ("of", lambda g: _gib(g.memory_mib.total)),
    ("PCIe", lambda g: _pcie(g)),
    ("NUMA", lambda g: _or_unknown(g.numa_node)),
    ("limit", lambda g: UNKNOWN if g.power_limit_w is None else f"{g.power_limit_w:g} W"),
    ("ECC", lambda g: _on(g.ecc)),
    ("MIG", lambda g: _on(g.mig)),
    ("sm", lambda g: "{}.{}".format(*g.compute_capability) if g.compute_capability else UNKNOWN),
]


def report(snapshot: Snapshot, findings: Sequence[Finding], *, every_gap: bool = False) -> str:
    """The whole report, ready to print once cleaned of control characters."""
    parts = [_heading(snapshot)]
    if snapshot.gpus:
        parts += [_table(snapshot), _matrix(snapshot), "\n".join(tree_lines(topology.tree(snapshot)))]
        parts.append("\n".join(_peers(snapshot)))
    holders = [f"GPU {g.index}: {describe(holder)}" for g in snapshot.gpus for holder in g.processes]
    if holders:
        parts.append("\n".join(["who holds memory", *(f"  {line}" for line in holders)]))
    parts.append("\n".join(_findings(findings)))
    parts.append("\n".join(_not_known(snapshot, every_gap)))
    return "\n\n".join(part for part in parts if part)


def _heading(snapshot: Snapshot) -> str:
    if snapshot.driver is None and not snapshot.gpus:
        return "no NVIDIA driver answers on this machine"
    module = f" ({snapshot.kernel_module} kernel module)" if snapshot.kernel_module else ""
    number = len(snapshot.gpus)
    return f"{number} GPU{'' if number == 1 else 's'}, driver {snapshot.driver or UNKNOWN}{module}, " + (
        f"CUDA up to {snapshot.cuda_driver or UNKNOWN}"
    )


def _table(snapshot: Snapshot) -> str:
    rows = [[title for title, _ in COLUMNS], *([cell(gpu) for _, cell in COLUMNS] for gpu in snapshot.gpus)]
    return "\n".join(columns(rows))


def _matrix(snapshot: Snapshot) -> str:
    names = [f"GPU{gpu.index}" for gpu in snapshot.gpus]
    rows = [["", *names]]
    rows += [[name, *(label or "?" for label in row)] for name, row in zip(names, snapshot.links, strict=True)]
    return "\n".join(
        [
            "ways between cards (NV# NVLinks, PIX one switch, PXB switches, PHB host bridge, "
            "NODE one NUMA node, SYS across)",
            *columns(rows),
        ]
    )


def _peers(snapshot: Snapshot) -> Iterator[str]:
    """`peer access: read ok (56 ways), ...`: each kind with how often each answer was given."""
    accesses = [access for row in snapshot.p2p for access in row if access]
    for kind in ("read", "write", "atomics"):
        counted = Counter(getattr(access, kind) or "unknown" for access in accesses)
        answers = ", ".join(f"{answer} ({count} ways)" for answer, count in counted.most_common())
        if answers:
            yield f"peer {kind:8}{answers}"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines with every column as wide as its widest cell."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def tree_lines(place: topology.Place, before: str = "") -> Iterator[str]:
    """A tree drawn with lines, its root first."""
    if not before:
        yield place.title
    for number, below in enumerate(place.below):
        last = number == len(place.below) - 1
        yield f"{before}{'└─ ' if last else '├─ '}{_leaf(below)}"
        yield from list(tree_lines(below, before + ("   " if last else "│  ")))


def _leaf(place: topology.Place) -> str:
    gpu = place.gpu
    if gpu is None:
        return place.title
    known = [normal_bus_id(gpu.bus_id) if gpu.bus_id else "", gpu.name or gpu.state, _pcie(gpu)]
    return "  ".join([place.title, *(text for text in known if text and text != UNKNOWN)])


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    if not findings:
        yield "nothing found wrong"
    for finding in findings:
        yield f"{finding.level.upper()}  {finding.found}"
        yield f"      want  {finding.want}"
        yield f"      fix   {finding.fix}"


def _not_known(snapshot: Snapshot, every_gap: bool) -> Iterator[str]:
    if snapshot.xids is None:
        yield "Xid faults: unknown, the kernel's log needs root here (sudo kit probe)"
    if not every_gap:
        return
    for gap in snapshot.gaps:
        at = "" if gap.gpu is None else f" on GPU {gap.gpu}" + ("" if gap.peer is None else f" to {gap.peer}")
        yield f"not known: {gap.call}{at}: {gap.reason}"


def _pcie(gpu: Gpu) -> str:
    pcie = gpu.pcie
    if pcie.gen_max is None and pcie.width_now is None:
        return UNKNOWN
    return f"Gen{_or_unknown(pcie.gen_max)} x{_or_unknown(pcie.width_now)}"


def _gib(mib: int | None) -> str:
    return UNKNOWN if mib is None else size(mib)


def _or_unknown(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _on(value: bool | None) -> str:
    return UNKNOWN if value is None else "on" if value else "off"
