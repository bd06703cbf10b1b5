"""The shape of a box from its link matrix: groups, tree, which cards are near each other. Pure.

Labels are those of `nvidia-smi topo -m`, nearest first: NV# (NVLinks), PIX (one PCIe switch), PXB (several switches),
PHB (one host bridge), NODE (host bridges of one NUMA node), SYS (between NUMA nodes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kit.gpu.snapshot import Gpu, Snapshot

Matrix = Sequence[Sequence[str | None]]
PCIE_LABELS = ("PIX", "PXB", "PHB", "NODE", "SYS")
LEVELS = ("NV1", *PCIE_LABELS)  # any number of NVLinks is nearer than PCIe
PLACES = {
    "PIX": "PCIe switch",
    "PXB": "PCIe switches in a row",
    "PHB": "PCIe host bridge",
    "NODE": "host bridges of one NUMA node",
    "SYS": "machine",
}


@dataclass(frozen=True)
class Place:
    """A branch of the drawn tree: a title and what hangs below it, or one card."""

    title: str
    below: tuple[Place, ...] = ()
    gpu: Gpu | None = field(default=None, compare=False)


def distance(label: str | None) -> int:
    """How far a label is: 0 for NVLink, then by PCIE_LABELS; one more than SYS for a way that is not known."""
    if label and label.startswith("NV"):
        return 0
    return PCIE_LABELS.index(label) + 1 if label in PCIE_LABELS else len(PCIE_LABELS) + 1


def groups(links: Matrix, members: Sequence[int], at_most: str) -> list[list[int]]:
    """`members` split into sets whose cards reach each other by ways no longer than `at_most`, in index order."""
    left, found = list(members), []
    while left:
        group = [left.pop(0)]
        for one in group:
            near = [other for other in left if distance(links[one][other]) <= distance(at_most)]
            group += near
            left = [other for other in left if other not in near]
        found.append(sorted(group))
    return found


def furthest(links: Matrix, members: Sequence[int]) -> str | None:
    """The label of the longest way among `members`; None for fewer than two cards or when one way is not known."""
    labels = [links[a][b] for a in members for b in members if a != b]
    return max(labels, key=distance, default=None) if None not in labels else None


def nearest_sets(links: Matrix, members: Sequence[int], size: int) -> list[list[int]]:
    """`members` cut into sets of `size` cards, the nearest together first; cards that fill no set are left out.

    Which cards to give to each engine of that tensor parallel size.
    """
    left, sets = list(members), []
    for label in LEVELS:
        for group in groups(links, left, label):
            cards = rank_order(links, group)
            whole = len(cards) - len(cards) % size
            sets += [sorted(cards[start : start + size]) for start in range(0, whole, size)]
            left = [card for card in left if card not in cards[:whole]]
    return sorted(sets)


def rank_order(links: Matrix, members: Sequence[int], level: int = len(LEVELS)) -> list[int]:
    """The cards in an order of ranks in which neighbours are near: those of one group at any level stand together."""
    if level == 0 or len(members) == 1:
        return list(members)
    return [card for group in groups(links, members, LEVELS[level - 1]) for card in rank_order(links, group, level - 1)]


def tree(snapshot: Snapshot) -> Place:
    """The box as a tree: machine, sockets, switches, cards. Cards without a known way hang on the machine itself."""
    links = snapshot.pcie_links
    working = [gpu.index for gpu in snapshot.working()]
    below = [_socket(snapshot, group) for group in groups(links, working, "NODE")]
    below += [_card(gpu) for gpu in snapshot.gpus if gpu.state != "ok"]
    return Place("machine", tuple(below))


def _socket(snapshot: Snapshot, members: list[int]) -> Place:
    cards = [snapshot.gpus[index] for index in members]
    facts = []
    for name, values in (
        ("NUMA node", {card.numa_node for card in cards}),
        ("CPUs", {card.cpu_affinity for card in cards}),
    ):
        if None not in values:
            facts.append(f"{name} {', '.join(str(value) for value in sorted(values, key=str))}")
    inside = _branch(snapshot, members)
    # The socket itself stands for host bridges of one node: their cards hang on it directly.
    below = inside.below if inside.title == PLACES["NODE"] else (inside,)
    return Place(f"socket ({'; '.join(facts)})" if facts else "socket", below)


def _branch(snapshot: Snapshot, members: list[int]) -> Place:
    if len(members) == 1:
        return _card(snapshot.gpus[members[0]])
    links = snapshot.pcie_links
    level = next((n for n, label in enumerate(PCIE_LABELS) if len(groups(links, members, label)) == 1), None)
    if not level:
        return Place(PLACES["PIX"] if level == 0 else "machine", tuple(_card(snapshot.gpus[i]) for i in members))
    parts = groups(links, members, PCIE_LABELS[level - 1])
    return Place(PLACES[PCIE_LABELS[level]], tuple(_branch(snapshot, part) for part in parts))


def _card(gpu: Gpu) -> Place:
    return Place(f"GPU {gpu.index}", gpu=gpu)
