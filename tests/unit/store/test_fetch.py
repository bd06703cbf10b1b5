"""Fetching: what a failure of pip or apt means, without a network."""

from pathlib import Path

import pytest

from kit import proc
from kit.errors import IntegrityError, KitError, MissingError
from kit.lock.debs import Deb
from kit.lock.wheels import Wheel
from kit.store import fetch
from kit.store.store import Store

TORCH = Wheel("torch", "2.13.0+cpu", "torch-2.13.0+cpu-py3-none-any.whl", 9, "a" * 64)
BASH = Deb("bash", "5.2", "amd64", 3, "b" * 64, "pool/bash_5.2_amd64.deb")


def pip_says(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(fetch.proc, "run", lambda args, **_: proc.Done(tuple(args), 1, "", text))


def failure(store: Store) -> KitError:
    with pytest.raises(KitError) as caught:
        fetch.fetch_wheels(store, [TORCH], "3.11", 36, lambda text: None)
    assert store.contents() == {} and not list(store.root.glob("part-*"))
    return caught.value


def test_another_file_under_the_locked_name_is_an_integrity_error_with_both_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pip_says(
        monkeypatch,
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n"
        f"    torch==2.13.0+cpu from x:\n        Expected sha256 {'a' * 64}\n             Got        {'c' * 64}\n",
    )
    error = failure(Store(tmp_path))
    assert isinstance(error, IntegrityError) and TORCH.file in error.message
    assert error.evidence == [f"sha256 locked: {'a' * 64}", f"sha256 found:  {'c' * 64}"]


def test_a_wheel_that_no_index_has_is_named_with_the_way_to_name_another_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pip_says(monkeypatch, "ERROR: No matching distribution found for torch==2.13.0+cpu (from -r x)\n")
    error = failure(Store(tmp_path))
    assert isinstance(error, MissingError) and error.message.startswith("torch==2.13.0+cpu is on none")
    assert "KIT_EXTRA_INDEX" in (error.hint or "")


def test_a_network_that_is_gone_says_that_what_came_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pip_says(monkeypatch, "ERROR: Could not install packages due to an OSError: Connection refused\n")
    error = failure(Store(tmp_path))
    assert isinstance(error, MissingError) and "what came is kept" in (error.hint or "")


class Archive:
    """Stands for apt at the edge of this machine."""

    def __init__(self, evidence: list[str]):
        self.evidence = evidence

    def download(self, names: list[str], to: Path) -> None:
        assert names == ["bash=5.2"]
        raise MissingError("Debian packages could not be fetched", evidence=self.evidence)


def test_an_archive_that_moved_on_is_told_from_one_out_of_reach(tmp_path: Path):
    for line, kind in (
        ("E: Version '5.2' for 'bash' was not found", fetch.ArchiveMovedOn),
        ("Err:1 http://mirror.example bookworm InRelease", MissingError),
    ):
        with pytest.raises(MissingError) as caught:
            fetch.fetch_debs(Store(tmp_path), [BASH], lambda line=line: Archive([line]), lambda text: None)  # type: ignore[misc]
        assert type(caught.value) is kind and caught.value.evidence == [line]


def test_batches_keep_what_an_interruption_costs_small():
    wheels = [Wheel(f"w{n}", "1", f"w{n}.whl", 40 << 20, "d" * 64) for n in range(5)]
    wheels += [Wheel("big", "1", "big.whl", 500 << 20, "e" * 64)]
    wheels += [Wheel(f"s{n}", "1", f"s{n}.whl", 1, "f" * 64) for n in range(40)]
    batches = fetch._batches(wheels)
    assert [w for batch in batches for w in batch] == wheels
    assert [len(batch) for batch in batches] == [2, 2, 1, 1, 32, 8]
