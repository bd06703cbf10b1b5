"""Which settings fit a box: NCCL's variables, the cards to pair, CPUs, the kernel command line. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

from kit.advice import Advice
from kit.config import Kit
from kit.gpu import topology
from kit.gpu.known import version
from kit.gpu.snapshot import Snapshot
from kit.host.facts import HostFacts

# NCCL goes straight between cards up to PXB by itself; further ways must be allowed by name.
NCCL_DEFAULT_REACH = "PXB"
MIN_CHANNELS = "8"
OWN_ALL_REDUCE_OFF = "--disable-custom-all-reduce"
NUMA_BIND_SINCE = "0.20.0"  # vllm serve --numa-bind; earlier releases cannot bind each worker


def advise(kit: Kit, snapshot: Snapshot, host: HostFacts) -> Advice:
    """Advice for this deployment on this box; empty where there is nothing to say (the CPU, or no card answers)."""
    ranks = kit.parallel.tensor * kit.parallel.pipeline
    cards = choose_cards(kit, snapshot)
    if kit.engine.device != "cuda" or len(cards) < ranks:
        return Advice(box=fingerprint(snapshot))
    settings = [*_card_order(kit, snapshot, cards), *(_nccl(snapshot, host, cards) if ranks > 1 else ())]
    nodes = {snapshot.gpus[card].numa_node for card in cards}
    affinities = tuple(snapshot.gpus[card].cpu_affinity for card in cards)
    one_node = len(host.numa) > 1 and len(nodes) == 1 and None not in nodes and len(set(affinities)) == 1
    return Advice(
        env={name: value for name, value, _ in settings},
        why={name: why for name, _, why in settings},
        gpus=tuple(cards),
        cpus=affinities[0] if one_node else None,
        rank_cpus=affinities,
        notes=tuple(_notes(kit, snapshot, host, cards)),
        box=fingerprint(snapshot),
    )


def choose_cards(kit: Kit, snapshot: Snapshot) -> list[int]:
    """The cards to use, by rank: those named in kit.yaml, else the set of nearest ones, near ones side by side."""
    ranks = kit.parallel.tensor * kit.parallel.pipeline
    members = [gpu.index for gpu in snapshot.working()]
    named = kit.gpus.devices
    if named != "all":
        members = [gpu.index for gpu in snapshot.working() if str(gpu.index) in named or gpu.uuid in named]
    sets = topology.nearest_sets(snapshot.links, members, ranks)
    return topology.rank_order(snapshot.links, sets[0]) if sets else []


def fingerprint(snapshot: Snapshot) -> str:
    """12 hex digits, the same as long as cards, slots and ways between them are."""
    what = [[(gpu.name, gpu.bus_id) for gpu in snapshot.gpus], snapshot.links]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]


Setting = tuple[str, str, str]  # variable, value, why


def _card_order(kit: Kit, snapshot: Snapshot, cards: Sequence[int]) -> Iterator[Setting]:
    """Only where vLLM would take others by itself: it takes the first cards that it sees."""
    seen = [gpu.index for gpu in snapshot.gpus]
    if kit.gpus.devices == "all" and list(cards) != seen[: len(cards)]:
        # By index: this vLLM turns each entry into a number, so a UUID would stop it.
        yield "CUDA_VISIBLE_DEVICES", ",".join(map(str, cards)), "these cards are nearest to each other, in this order"
        yield "CUDA_DEVICE_ORDER", "PCI_BUS_ID", "so that CUDA numbers the cards as the driver does"


def _nccl(snapshot: Snapshot, host: HostFacts, cards: Sequence[int]) -> Iterator[Setting]:
    if not host.infiniband:
        yield "NCCL_IB_DISABLE", "1", "there is no InfiniBand: NCCL need not look for it"
    far = topology.furthest(snapshot.links, cards)
    if far is None or far.startswith("NV"):
        return
    if (why := peer_trouble(snapshot, host, cards)) is not None:
        yield "NCCL_P2P_DISABLE", "1", why
        return
    if topology.distance(far) > topology.distance(NCCL_DEFAULT_REACH):
        yield "NCCL_P2P_LEVEL", far, f"the furthest of these cards are {far} apart, and peer access works there"
    yield "NCCL_MIN_NCHANNELS", MIN_CHANNELS, "over PCIe more channels carry more than NCCL's default"


def peer_trouble(snapshot: Snapshot, host: HostFacts, cards: Sequence[int]) -> str | None:
    """Why cards should not reach straight into each other's memory on this box; None when they may."""
    for a in cards:
        for b in cards:
            access = snapshot.p2p[a][b] if a != b else None
            if access and (access.read not in (None, "ok") or access.write not in (None, "ok")):
                return f"the driver gives no peer access between GPUs {a} and {b}"
    if host.iommu.mode == "translated" and (host.acs_redirecting or host.acs_unreadable):
        redirected = "ACS redirects" if host.acs_redirecting else "ACS may redirect (root would tell)"
        return f"the IOMMU translates and {redirected} peer traffic: the first all-reduce can hang"
    return None


def _notes(kit: Kit, snapshot: Snapshot, host: HostFacts, cards: Sequence[int]) -> Iterator[str]:
    ranks = len(cards)
    far = topology.furthest(snapshot.links, cards)
    direct = ranks == 2 and far is not None and not far.startswith("NV")  # over PCIe vLLM's own is for two cards only
    blind = host.iommu.mode == "translated" and peer_trouble(snapshot, host, cards) is not None
    if direct and blind and OWN_ALL_REDUCE_OFF not in kit.engine.args:
        yield (
            f"engine.args: {OWN_ALL_REDUCE_OFF}: vLLM's own all-reduce between two cards reaches straight into their "
            "memory, whatever NCCL_P2P_DISABLE says"
        )
    if ranks > 1 and host.iommu.mode == "translated":
        amd = "AMD" in (host.cpu.model or "")
        yield (
            f"kernel command line: add {'amd_iommu=on' if amd else 'intel_iommu=on'} iommu=pt, then reboot: with a "
            "translating IOMMU peer traffic is slow or hangs"
        )
    if ranks > 1 and host.acs_redirecting:
        yield (
            "turn ACS off in the BIOS: two-way traffic under one switch halves with it "
            f"(redirecting: {', '.join(host.acs_redirecting)})"
        )
    if any(gpu.persistence is False for gpu in snapshot.working()):
        yield "sudo nvidia-smi -pm 1: without persistence mode every first call wakes the cards anew"
    if len(host.numa) > 1 and host.numa_balancing:
        yield "sudo sysctl kernel.numa_balancing=0: moving pages about disturbs transfers to the cards"
    nodes = [snapshot.gpus[card].numa_node for card in cards]
    if len(set(nodes)) > 1 and None not in nodes:
        order = " ".join(map(str, nodes))
        if version(kit.engine.vllm) >= version(NUMA_BIND_SINCE):
            yield f"engine.args: --numa-bind --numa-bind-nodes {order} binds each worker to its card's node (numactl)"
        else:
            yield f"NUMA node of each rank's card: {order} (vLLM {kit.engine.vllm} cannot bind workers one by one)"
    working = [gpu.index for gpu in snapshot.working()]
    others = [s for s in topology.nearest_sets(snapshot.links, working, ranks) if set(s) != set(cards)]
    if others:
        sets = "; ".join(",".join(map(str, other)) for other in others)
        yield f"cards for further engines of this size, nearest together: {sets}"
