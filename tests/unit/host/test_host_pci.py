"""PCI cards, bridges and ACS, from a made-up sysfs."""

from __future__ import annotations

import struct
from pathlib import Path

from kit.host.pci import nvidia_cards, redirecting_bridges


def config_space(acs_control: int | None, size: int = 4096) -> bytes:
    """Configuration space with an error-reporting capability first and, unless None, ACS behind it."""
    space = bytearray(size)
    if size > 0x100:
        following = 0 if acs_control is None else 0x140
        struct.pack_into("<I", space, 0x100, following << 20 | 1 << 16 | 0x0001)
        if acs_control is not None:
            struct.pack_into("<IHH", space, 0x140, 0 << 20 | 1 << 16 | 0x000D, 0x001F, acs_control)
    return bytes(space)


def box(root: Path, port_config: bytes) -> Path:
    """Two cards under one switch (two downstream ports below one upstream port below a root port), one elsewhere."""
    places = {
        "0000:01:00.0": "pci0000:00/0000:00:01.1/0000:0a:00.0/0000:0b:00.0/0000:01:00.0",
        "0000:02:00.0": "pci0000:00/0000:00:01.1/0000:0a:00.0/0000:0b:01.0/0000:02:00.0",
        "0000:81:00.0": "pci0000:80/0000:80:01.1/0000:81:00.0",
    }
    listed = root / "sys/bus/pci/devices"
    listed.mkdir(parents=True)
    for bus_id, place in places.items():
        folder = root / "sys/devices" / place
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
        (folder / "numa_node").write_text("-1\n")
        (listed / bus_id).symlink_to(folder)
        for parent in folder.parents:
            if parent.name.startswith("0000:"):
                (parent / "config").write_bytes(port_config)
    audio = root / "sys/devices/pci0000:00/0000:00:01.1/0000:0a:00.0/0000:0b:00.0/0000:01:00.1"
    audio.mkdir()
    (audio / "vendor").write_text("0x10de\n")
    (audio / "class").write_text("0x040300\n")
    (listed / "0000:01:00.1").symlink_to(audio)
    return root


def test_only_display_devices_count_and_bridges_go_up_to_the_root(tmp_path):
    cards = nvidia_cards(box(tmp_path, config_space(None)))
    assert [card.bus_id for card in cards] == ["0000:01:00.0", "0000:02:00.0", "0000:81:00.0"]
    assert [bridge.bus_id for bridge in cards[0].above] == ["0000:0b:00.0", "0000:0a:00.0", "0000:00:01.1"]


def test_acs_off_and_acs_absent_redirect_nothing(tmp_path):
    for number, control in enumerate((None, 0x0000, 0x0001)):  # absent; all off; source validation alone
        cards = nvidia_cards(box(tmp_path / str(number), config_space(control)))
        assert redirecting_bridges(cards) == ([], [])


def test_acs_redirection_is_found_on_every_bridge_that_lies_between_two_cards(tmp_path):
    cards = nvidia_cards(box(tmp_path, config_space(0x001D)))
    assert redirecting_bridges(cards)[0] == [
        "0000:00:01.1",
        "0000:0a:00.0",
        "0000:0b:00.0",
        "0000:0b:01.0",
        "0000:80:01.1",
    ]
    pair = cards[:2]
    # the switch's upstream port and the root port are shared by both: traffic turns below them
    assert redirecting_bridges(pair)[0] == ["0000:0b:00.0", "0000:0b:01.0"]


def test_completion_redirection_alone_counts(tmp_path):
    assert redirecting_bridges(nvidia_cards(box(tmp_path, config_space(0x0008))))[0]


def test_without_root_the_kernel_shows_64_bytes_and_that_is_unknown(tmp_path):
    cards = nvidia_cards(box(tmp_path, config_space(None, size=64)))
    assert redirecting_bridges(cards[:2]) == ([], ["0000:0b:00.0", "0000:0b:01.0"])


def test_a_capability_list_that_bites_its_tail_ends(tmp_path):
    looping = bytearray(4096)
    struct.pack_into("<I", looping, 0x100, 0x100 << 20 | 1 << 16 | 0x0001)
    assert redirecting_bridges(nvidia_cards(box(tmp_path, bytes(looping)))) == ([], [])


def test_no_pci_bus_is_not_no_cards(tmp_path):
    assert nvidia_cards(tmp_path) is None
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    assert nvidia_cards(tmp_path) == ()


def test_a_card_handed_to_a_guest_is_none_of_this_machines(tmp_path):
    root = box(tmp_path, config_space(None))
    for name in ("nvidia", "vfio-pci"):
        (root / f"sys/bus/pci/drivers/{name}").mkdir(parents=True)
    listed = root / "sys/bus/pci/devices"
    (listed / "0000:01:00.0/driver").symlink_to(root / "sys/bus/pci/drivers/nvidia")
    (listed / "0000:02:00.0/driver").symlink_to(root / "sys/bus/pci/drivers/vfio-pci")
    assert [card.bus_id for card in nvidia_cards(root)] == ["0000:01:00.0", "0000:81:00.0"]
