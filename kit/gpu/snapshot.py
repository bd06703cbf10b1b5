"""What the cards are and how they are linked, as plain data (`kit.gpus/1`). No call is made here and nothing judged.

Memory is in MiB (2**20 bytes), power in watts, temperature in degrees Celsius. None always means "not known"; why it
is not known stands in `Snapshot.gaps`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

SCHEMA = "kit.gpus/1"


@dataclass(frozen=True)
class Memory:
    """`reserved` is the driver's own share; `used` is without it where the driver tells them apart."""

    total: int | None = None
    reserved: int | None = None
    free: int | None = None
    used: int | None = None


@dataclass(frozen=True)
class Bar1:
    """The window through which the CPU and other cards reach this card's memory."""

    total: int | None = None
    used: int | None = None


@dataclass(frozen=True)
class Pcie:
    """`gen_max` is what card and slot can do together, `gen_card` the card alone; `gen_now` sinks when idle."""

    gen_max: int | None = None
    gen_card: int | None = None
    gen_now: int | None = None
    width_max: int | None = None
    width_now: int | None = None
    replays: int | None = None


@dataclass(frozen=True)
class Power:
    """Watts: the limit in force, its default, what may be set, and the draw now."""

    limit_w: float | None = None
    default_w: float | None = None
    min_w: float | None = None
    max_w: float | None = None
    draw_w: float | None = None


@dataclass(frozen=True)
class RowRemap:
    """Rows of memory replaced by spares: `pending` takes effect at the next reset, `failed` means no spare was left."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


@dataclass(frozen=True)
class Holder:
    """A process with memory on a card. `container` is the first 12 digits of the container it runs in."""

    pid: int
    used_mib: int | None = None
    name: str | None = None
    user: str | None = None
    container: str | None = None


@dataclass(frozen=True)
class Gpu:
    """One card by NVML index. `state`: ok, lost, reset-required, hung, crashed, or error (it gives no handle)."""

    index: int
    state: str = "ok"
    uuid: str | None = None
    name: str | None = None
    compute_capability: tuple[int, int] | None = None
    memory_mib: Memory = field(default_factory=Memory)
    bus_id: str | None = None
    pcie: Pcie = field(default_factory=Pcie)
    numa_node: int | None = None
    cpu_affinity: str | None = None
    power_limit_w: float | None = None
    mig: bool | None = None
    ecc: bool | None = None
    processes: tuple[Holder, ...] = ()
    serial: str | None = None
    minor: int | None = None
    architecture: str | None = None
    pci_device_id: str | None = None
    pci_subsystem_id: str | None = None
    vbios: str | None = None
    bar1_mib: Bar1 = field(default_factory=Bar1)
    power: Power = field(default_factory=Power)
    temperature_c: int | None = None
    utilization_percent: int | None = None
    performance_state: int | None = None
    throttle: tuple[str, ...] | None = None
    mig_pending: bool | None = None
    ecc_pending: bool | None = None
    ecc_uncorrected: int | None = None
    row_remap: RowRemap | None = None
    retired_pages_pending: bool | None = None
    persistence: bool | None = None
    compute_mode: str | None = None
    nvlinks_active: int | None = None
    nvlinks_total: int | None = None


@dataclass(frozen=True)
class PeerAccess:
    """What one card may do to another's memory: ok, or NVML's word for why not; None: not known."""

    read: str | None = None
    write: str | None = None
    atomics: str | None = None
    nvlink: str | None = None


@dataclass(frozen=True)
class Gap:
    """A question that got no answer, with the reason (a word of `kit.gpu.records.REASONS`, or hung, crashed)."""

    call: str
    reason: str
    text: str = ""
    gpu: int | None = None
    peer: int | None = None


@dataclass(frozen=True)
class Xid:
    """A fault that the driver wrote to the kernel's log: number, card and the driver's words."""

    number: int
    bus_id: str
    text: str


@dataclass(frozen=True)
class Snapshot:
    """Everything known of the cards at one moment.

    `links[i][j]` is the label of the way from card i to j as `nvidia-smi topo -m` prints it, "X" on the diagonal;
    `pcie_links` is the same without regard to NVLink.
    `pci_bus_ids`: NVIDIA display devices on the PCI bus, whether or not the driver answers for them (None: not
    known). `xids`: None where the kernel's log may not be read. `nvml_seconds` is the time inside the driver.
    """

    driver: str | None = None
    cuda_driver: str | None = None
    gpus: tuple[Gpu, ...] = ()
    links: tuple[tuple[str | None, ...], ...] = ()
    p2p: tuple[tuple[PeerAccess | None, ...], ...] = ()
    pcie_links: tuple[tuple[str | None, ...], ...] = ()
    nvml: str | None = None
    kernel_module: str | None = None
    pci_bus_ids: tuple[str, ...] | None = None
    xids: tuple[Xid, ...] | None = None
    gaps: tuple[Gap, ...] = ()
    nvml_seconds: float = 0.0

    def working(self) -> tuple[Gpu, ...]:
        """The cards that answer."""
        return tuple(gpu for gpu in self.gpus if gpu.state == "ok")


def anonymous(snapshot: Snapshot) -> Snapshot:
    """The same machine without what names it: UUIDs, serial numbers, process ids, users, containers.

    Equal identifiers stay equal and different ones different, so the result judges as the original does.
    """
    gpus = tuple(
        replace(
            gpu,
            uuid=gpu.uuid and f"GPU-00000000-0000-0000-0000-{gpu.index:012d}",
            serial=gpu.serial and f"{gpu.index:013d}",
            processes=tuple(
                replace(holder, pid=1000 + n, name="process", user="user", container=holder.container and "0" * 12)
                for n, holder in enumerate(gpu.processes)
            ),
        )
        for gpu in snapshot.gpus
    )
    xids = None if snapshot.xids is None else tuple(replace(xid, text="") for xid in snapshot.xids)
    gaps = tuple(replace(gap, text="" if gap.reason in ("crashed", "error") else gap.text) for gap in snapshot.gaps)
    return replace(snapshot, gpus=gpus, xids=xids, gaps=gaps)


def normal_bus_id(bus_id: str) -> str:
    """A PCI address as the kernel writes it (`0000:41:00.0`), from NVML's form with eight digits of domain."""
    domain, _, rest = bus_id.strip().lower().partition(":")
    return f"{int(domain or '0', 16):04x}:{rest}"
