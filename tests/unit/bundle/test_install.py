"""Install, list and rollback on a machine that the test plays: files for its images and its service."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kit import files
from kit.bundle import install as installing
from kit.bundle import keys
from kit.bundle import remove as removing
from kit.bundle.manifest import Image
from kit.bundle.releases import Pending, Releases
from kit.bundle.stored import open_bundle
from kit.bundle.switch import rollback, switch
from kit.bundle.verify import Verified, verify
from kit.errors import EngineFailed, GateError, IntegrityError, KitError, MissingError, UsageError

NOW = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it wrote; waiting for the disk is for power cuts."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(os, "sync", lambda: None)


def quiet(text: str) -> None:
    pass


@dataclass
class Box:
    """An engine that holds images as files, and room for one service, whose name is a file.

    `broken` maps a release to the exit code of its start; `sick` to that of its doctor.
    """

    folder: Path
    releases: Releases
    broken: dict[str, int] = field(default_factory=dict)
    sick: dict[str, int] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    @property
    def service(self) -> str | None:
        path = self.folder / "service"
        return path.read_text() if path.exists() else None

    def has_image(self, image: Image) -> bool:
        path = self.folder / image.reference.replace("/", "_")
        return path.exists() and path.read_text() == image.config

    def load(self, verified: Verified) -> None:
        image = verified.manifest.image
        files.write(self.folder / image.reference.replace("/", "_"), image.config)

    def prepare(self, verified: Verified, folder: str) -> None:
        files.write(self.releases.root / "releases" / folder / "venv" / "python", "x")

    def is_prepared(self, release: str) -> bool:
        return (self.releases.folder(release) / "venv" / "python").exists()

    def doctor(self, release: str) -> int:
        return self.sick.get(release, 0)

    def is_up(self, release: str) -> bool:
        return self.service == release

    def start(self, release: str) -> int:
        self.done.append(f"start {release}")
        assert self.releases.is_installed(release)
        if self.service not in (None, release):
            return 5  # the port is taken
        if self.broken.get(release):
            return self.broken[release]
        files.write(self.folder / "service", release)
        return 0

    def stop(self, release: str) -> None:
        self.done.append(f"stop {release}")
        if self.service == release:
            (self.folder / "service").unlink()

    def clear(self, release: str, name: str) -> None:
        self.done.append(f"clear {release} of {name}")

    def remove_image(self, image: Image) -> bool:
        if not self.has_image(image):
            return False
        (self.folder / image.reference.replace("/", "_")).unlink()
        return True


@pytest.fixture
def box(tmp_path: Path) -> Box:
    (tmp_path / "machine").mkdir()
    return Box(tmp_path / "machine", Releases(tmp_path / "opt"))


@pytest.fixture
def old(pack, key_files, small_image) -> Verified:
    """The bundle of a third release, which has an image of its own."""
    image = replace(small_image, reference="kit/embedded:old")
    path = pack("old", files={"deployment/kit.yaml": b"old\n", "rendered/launch.sh": b"#!/bin/sh\n"}, image=image)
    return verify(open_bundle(path), keys.load_trusted(key_files / "kit.pub"), now=NOW)


@pytest.fixture
def two(pack, key_files) -> tuple[Verified, Verified]:
    """The bundles of two releases, verified."""
    trusted = keys.load_trusted(key_files / "kit.pub")
    one = pack("a", files={"deployment/kit.yaml": b"one\n", "kit/wheels/x.whl": b"wheel"})
    other = pack("b", files={"deployment/kit.yaml": b"two\n", "rendered/launch.sh": b"#!/bin/sh\n"})
    return tuple(verify(open_bundle(path), trusted, now=NOW) for path in (one, other))


def put(verified: Verified, box: Box, stage_only: bool = False) -> str:
    installing.install(verified, box.releases, box, quiet, stage_only=stage_only, now=NOW)
    return verified.manifest.release


def settled(box: Box, current: str) -> None:
    """The releases and the service are at rest, with `current` current and running."""
    assert (box.releases.current, box.service, box.releases.pending) == (current, current, None)
    box.releases.check(current)
    assert [p.name for p in (box.releases.root / "releases").iterdir() if p.name.startswith(".")] == []


def test_install_upgrade_rollback(box, two):
    a = put(two[0], box)
    settled(box, a)
    folder = box.releases.folder(a)
    assert (folder / "deployment/kit.yaml").read_bytes() == b"one\n"
    assert not (folder / "kit/wheels").exists() and not (folder / "image").exists()
    assert json.loads((folder / "installed.json").read_text())["installed"] == "2026-11-29T00:00:00Z"
    b = put(two[1], box)
    settled(box, b)
    assert os.access(box.releases.folder(b) / "rendered/launch.sh", os.X_OK)
    assert box.releases.installed() == [a, b] and box.releases.previous(b) == a
    assert box.done == [f"start {a}", f"stop {a}", f"start {b}"]
    assert rollback(box.releases, box, None, quiet) == (b, a)
    settled(box, a)
    with pytest.raises(UsageError, match="took the place of no release"):
        rollback(box.releases, box, None, quiet)
    assert rollback(box.releases, box, b, quiet) == (a, b)
    settled(box, b)
    put(two[1], box)  # again: nothing to do
    settled(box, b)


def test_staged_only(box, two):
    a = put(two[0], box)
    b = put(two[1], box, stage_only=True)
    settled(box, a)
    assert box.releases.installed() == [a, b] and box.has_image(two[1].manifest.image)
    put(two[1], box)
    settled(box, b)


def test_the_doctor_objects(box, two):
    a = put(two[0], box)
    box.sick = {two[1].manifest.release: 3}
    with pytest.raises(GateError, match="nothing was stopped"):
        put(two[1], box)
    settled(box, a)
    assert f"stop {a}" not in box.done


@pytest.mark.parametrize(("code", "error"), [(3, GateError), (4, EngineFailed), (5, MissingError), (1, KitError)])
def test_a_release_that_does_not_pass(box, two, code, error):
    a = put(two[0], box)
    box.broken = {two[1].manifest.release: code}
    with pytest.raises(error, match=f"{a} runs again") as caught:
        put(two[1], box)
    assert caught.value.exit_code == code
    settled(box, a)
    box.broken = {}
    put(two[1], box)
    settled(box, two[1].manifest.release)


def test_a_first_release_that_does_not_pass(box, two):
    box.broken = {two[0].manifest.release: 4}
    with pytest.raises(EngineFailed, match="nothing runs now"):
        put(two[0], box)
    assert (box.releases.current, box.service, box.releases.pending) == (None, None, None)


def test_what_was_down_stays_down_when_the_new_one_fails(box, two):
    a = put(two[0], box)
    box.stop(a)
    box.broken = {two[1].manifest.release: 4}
    with pytest.raises(EngineFailed, match="nothing runs now"):
        put(two[1], box)
    assert (box.releases.current, box.service) == (a, None)


def test_a_medium_that_changes_after_the_check(box, two):
    a = put(two[0], box)
    path = two[1].bundle.path / "deployment/kit.yaml"
    path.write_bytes(b"TWO\n")
    with pytest.raises(IntegrityError, match="changed while it was being installed"):
        put(two[1], box)
    assert box.releases.installed() == [a]
    path.write_bytes(b"two\n")
    put(two[1], box)
    settled(box, two[1].manifest.release)


def test_an_installed_release_that_was_changed(box, two):
    a, b = put(two[0], box), put(two[1], box)
    (box.releases.folder(a) / "deployment/kit.yaml").write_text("port: 1\n")
    (box.releases.folder(a) / "deployment/.kit").mkdir()
    with pytest.raises(IntegrityError, match="was changed after it was installed") as caught:
        rollback(box.releases, box, None, quiet)
    assert caught.value.evidence[0].startswith("deployment/kit.yaml: SHA-256 is ")
    settled(box, b)
    put(two[0], box)
    settled(box, a)
    assert (box.releases.folder(a) / "deployment/.kit").is_dir()  # its logs stay


def test_another_image_under_the_same_name(box, two):
    a = put(two[0], box)
    put(two[1], box)
    image = two[0].manifest.image
    (box.folder / image.reference.replace("/", "_")).write_text("sha256:" + "0" * 64)
    with pytest.raises(MissingError, match="no longer has the image"):
        rollback(box.releases, box, None, quiet)
    put(two[0], box)  # loads the right one
    settled(box, a)
    box.load = lambda verified: None  # an engine that says yes and does nothing
    (box.folder / image.reference.replace("/", "_")).unlink()
    with pytest.raises(IntegrityError, match="is not in the engine after it was loaded"):
        put(two[0], box)
    assert box.service == a


def test_disk_full_while_staging(box, two, monkeypatch):
    a = put(two[0], box)
    real = installing.copy

    def full(verified: Verified, name: str, to: Path) -> None:
        real(verified, name, to)
        if name == "rendered/launch.sh":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(installing, "copy", full)
    with pytest.raises(MissingError, match="no space left"):
        put(two[1], box)
    assert (box.releases.current, box.service, box.releases.installed()) == (a, a, [a])
    monkeypatch.undo()
    put(two[1], box)
    settled(box, two[1].manifest.release)


def test_too_little_space_is_said_before(box, two, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 10**6))
    with pytest.raises(MissingError, match="GB are free"):
        put(two[0], box)
    assert box.releases.installed() == []


def test_two_at_once(box, two):
    with files.locked(box.releases.lock, what="x"), pytest.raises(UsageError, match="another kit"):
        put(two[0], box)


def test_removal_of_what_is_not_needed(box, old, two):
    o, a, b = put(old, box), put(two[0], box), put(two[1], box)
    for release, why in ((b, "current release"), (a, "rollback returns to")):
        with pytest.raises(UsageError, match=why):
            removing.remove(box.releases, box, [o, release], quiet)
    with pytest.raises(MissingError, match="is not installed here"):
        removing.remove(box.releases, box, [o, "another"], quiet)
    assert box.releases.installed() == [o, a, b]  # all or none
    done = removing.remove(box.releases, box, [o], quiet)
    assert done == removing.Removed((o,), ("kit/embedded:old",))
    assert f"clear {o} of embedded" in box.done
    assert box.releases.installed() == [a, b] and not box.has_image(old.manifest.image)
    settled(box, b)
    put(old, box)  # from its bundle again
    settled(box, o)
    done = removing.remove(box.releases, box, [a], quiet)  # its image is also b's
    assert done == removing.Removed((a,), ()) and box.has_image(two[0].manifest.image)
    assert rollback(box.releases, box, None, quiet) == (o, b)


def test_removal_may_leave_the_image_and_stops_at_a_service_that_runs(box, old, two):
    o, a, b = put(old, box), put(two[0], box), put(two[1], box)
    (box.folder / "service").write_text(o)  # a person started it
    with pytest.raises(UsageError, match="its service runs"):
        removing.remove(box.releases, box, [o], quiet)
    (box.folder / "service").write_text(b)
    assert removing.remove(box.releases, box, [o], quiet, images=False) == removing.Removed((o,), ())
    assert box.has_image(old.manifest.image)
    settled(box, b)
    assert box.releases.installed() == [a, b]


def test_the_oldest_go_until_so_many_are_left(box, old, two):
    o, a, b = put(old, box), put(two[0], box), put(two[1], box)
    assert [removing.outdated(box.releases, keep) for keep in (1, 2, 3, 9)] == [[o], [o], [], []]
    assert box.releases.installed() == [o, a, b]
    box.releases.begin(Pending(o, True))
    assert removing.outdated(box.releases, 1) == []


# What follows kills a process at every kind of moment: a child counts the system's audit events
# (opening, renaming, deleting ...) and ends itself by SIGKILL at the one it was told.


def killed_at(moment: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child that is killed at that event; whether it was, or had ended before."""
    child = os.fork()
    if child == 0:
        count = 0

        def hook(event: str, args: object) -> None:
            nonlocal count
            if event == "open" or event.startswith(("os.", "shutil.", "fcntl.")):
                count += 1
                if count == moment:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def every_moment(
    work: Callable[[], object], reset: Callable[[], None], check: Callable[[int], None], step: int = 1
) -> int:
    """Kill `work` at every `step`th event until it ends by itself; returns how often it was killed."""
    kills = 0
    while killed_at(1 + kills * step, work):
        check(kills)
        reset()
        kills += 1
    return kills


def test_kill_at_every_moment_of_an_upgrade(box, two, tmp_path):
    a, b = put(two[0], box), two[1].manifest.release
    shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-saved"), symlinks=True)
    saved = tmp_path.with_name(f"{tmp_path.name}-saved")

    def reset() -> None:
        for name in ("machine", "opt"):
            shutil.rmtree(tmp_path / name)
            shutil.copytree(saved / name, tmp_path / name, symlinks=True)

    def check(moment: int) -> None:
        assert box.releases.current in (a, b)
        for release in box.releases.installed():
            box.releases.check(release)
        if box.releases.pending is None:
            assert box.service == box.releases.current
        if moment % 2:
            put(two[1], box)
            settled(box, b)
            assert box.releases.previous(b) == a
        elif box.releases.current == a:  # or the operator wants the old one back
            if box.releases.pending:
                assert rollback(box.releases, box, None, quiet) == (a, a)
            assert (box.releases.current, box.service, box.releases.pending) == (a, a, None)

    assert every_moment(lambda: put(two[1], box), reset, check) > 50


def putting_back(folder: Path) -> Callable[[], None]:
    """A function that makes machine/ and opt/ of `folder` again what they are now."""
    saved = folder.with_name(f"{folder.name}-saved")
    shutil.copytree(folder, saved, symlinks=True)

    def reset() -> None:
        for name in ("machine", "opt"):
            shutil.rmtree(folder / name)
            shutil.copytree(saved / name, folder / name, symlinks=True)

    return reset


def test_kill_at_every_moment_of_a_rollback(box, two, tmp_path):
    a, b = put(two[0], box), put(two[1], box)
    reset = putting_back(tmp_path)

    def check(moment: int) -> None:
        if box.releases.current == b and moment % 2:
            rollback(box.releases, box, a, quiet)
        elif box.releases.current == b:
            put(two[1], box)  # or forward again
            settled(box, b)
            return
        settled(box, a)

    assert every_moment(lambda: rollback(box.releases, box, None, quiet), reset, check) > 20


def test_kill_at_every_moment_of_a_removal(box, old, two, tmp_path):
    o, a, b = put(old, box), put(two[0], box), put(two[1], box)
    reset = putting_back(tmp_path)

    def check(moment: int) -> None:
        if o in box.releases.installed():
            box.releases.check(o)
            assert box.has_image(old.manifest.image)
        removing.remove(box.releases, box, [o] if moment % 2 and o in box.releases.installed() else [], quiet)
        if o in box.releases.installed():
            assert removing.remove(box.releases, box, [o], quiet).images == ("kit/embedded:old",)
        settled(box, b)
        assert box.releases.installed() == [a, b] and not box.has_image(old.manifest.image)

    assert every_moment(lambda: removing.remove(box.releases, box, [o], quiet), reset, check) > 10


@pytest.mark.parametrize("form", ["folder", "file"])
@pytest.mark.parametrize("before", [False, True])
def test_kill_at_every_moment_of_packing(pack, small_image, key_files, tmp_path, form, before):
    good = pack("good", form, image=small_image)
    out = tmp_path / "out"

    def fresh() -> None:
        shutil.rmtree(out, ignore_errors=True)
        if before:
            shutil.copytree(good.parent, out)

    def check(moment: int) -> None:
        if before and form == "folder" and (out / good.name).exists():
            trusted = keys.load_trusted(key_files / "kit.pub")
            verify(open_bundle(out / good.name), trusted, now=NOW)
        pack("out", form, image=small_image)
        assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in good.parent.iterdir())
        for path in good.parent.rglob("*"):
            assert not path.is_file() or path.read_bytes() == (out / path.relative_to(good.parent)).read_bytes()

    fresh()
    step = 2 if form == "folder" else 1
    assert every_moment(lambda: pack("out", form, image=small_image), fresh, check, step) > 8


def test_switch_to_the_release_that_runs(box, two):
    a = put(two[0], box)
    switch(box.releases, box, a, quiet, remember=True)
    settled(box, a)
    assert box.releases.previous(a) is None
