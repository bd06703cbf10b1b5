"""The shape of a box from its matrix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.gpu import topology
from kit.gpu.show import tree_lines
from kit.gpu.snapshot import Gpu, Snapshot
from tests.standin import standin


def matrix(name: str) -> list[list[str]]:
    return [row.split() for row in standin.load(name)["links"]]


def boxed(name: str) -> Snapshot:
    profile = standin.load(name)
    gpus = tuple(
        Gpu(
            i, name="card", bus_id=profile["bus_ids"][i], numa_node=profile["nodes"][i], cpu_affinity=profile["cpus"][i]
        )
        for i in range(profile["count"])
    )
    links = tuple(tuple(row) for row in matrix(name))
    return Snapshot(gpus=gpus, links=links, pcie_links=links)


@pytest.mark.parametrize(
    ("name", "size", "sets"),
    [
        ("epyc-8-switch-pairs", 2, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("epyc-8-switch-pairs", 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("wrx90-8-two-switches", 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("wrx90-8-three-switches", 2, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("turin-8-direct", 8, [[0, 1, 2, 3, 4, 5, 6, 7]]),
        ("one-socket-4", 3, [[0, 1, 2]]),
    ],
)
def test_sets_stay_as_near_as_the_box_allows(name, size, sets):
    members = list(range(len(matrix(name))))
    assert topology.nearest_sets(matrix(name), members, size) == sets


def test_a_pair_is_not_split_when_a_card_is_missing():
    members = [1, 2, 3, 4, 5, 6, 7]
    assert topology.nearest_sets(matrix("epyc-8-switch-pairs"), members, 2) == [[2, 3], [4, 5], [6, 7]]


def test_ranks_follow_the_switches_whatever_the_numbering():
    # cards of one switch numbered 0, 2 and 1, 3
    links = [
        ["X", "SYS", "PIX", "SYS"],
        ["SYS", "X", "SYS", "PIX"],
        ["PIX", "SYS", "X", "SYS"],
        ["SYS", "PIX", "SYS", "X"],
    ]
    assert topology.rank_order(links, [0, 1, 2, 3]) == [0, 2, 1, 3]


@pytest.mark.parametrize(
    ("name", "label"),
    [("epyc-8-switch-pairs", "SYS"), ("wrx90-8-three-switches", "NODE"), ("workstation-2", "PHB")],
)
def test_furthest_way(name, label):
    assert topology.furthest(matrix(name), range(len(matrix(name)))) == label


def test_furthest_way_is_unknown_when_one_is():
    assert topology.furthest([["X", None], ["PIX", "X"]], [0, 1]) is None


def test_the_tree_of_switches_below_switches():
    lines = list(tree_lines(topology.tree(boxed("wrx90-8-three-switches"))))
    assert lines[:6] == [
        "machine",
        "└─ socket (NUMA node 0; CPUs 0-191)",
        "   ├─ PCIe switches in a row",
        "   │  ├─ PCIe switch",
        "   │  │  ├─ GPU 0  0000:03:00.0  card",
        "   │  │  └─ GPU 1  0000:04:00.0  card",
    ]
    assert sum("GPU" in line for line in lines) == 8


def test_the_tree_of_cards_without_switches():
    assert list(tree_lines(topology.tree(boxed("one-socket-4"))))[:3] == [
        "machine",
        "└─ socket (NUMA node 0; CPUs 0-95)",
        "   ├─ GPU 0  0000:01:00.0  card",
    ]


LABELS = st.sampled_from(["X", "PIX", "PXB", "PHB", "NODE", "SYS", "NV4", "?", None])


def square(side):
    return st.lists(st.lists(LABELS, min_size=side, max_size=side), min_size=side, max_size=side)


@given(st.integers(0, 9).flatmap(square))
def test_any_matrix_has_a_tree_with_every_card_once(links):
    rows = tuple(tuple(row) for row in links)
    snapshot = Snapshot(gpus=tuple(Gpu(i) for i in range(len(links))), links=rows, pcie_links=rows)
    drawn = "\n".join(tree_lines(topology.tree(snapshot)))
    assert all(drawn.count(f"GPU {i}") == 1 for i in range(len(links)))
    assert sorted(topology.rank_order(links, list(range(len(links))))) == list(range(len(links)))
