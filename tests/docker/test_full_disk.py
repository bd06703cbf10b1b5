"""A disk that really fills: under the engine during a build and during an installation, under a bundle during packing.

The engine has its data on a small file system of its own (a loop device). What fills it is a file that takes all
that is free at the moment when the work has begun, after every check for space.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kit.bundle import images, manifest, source, write
from kit.bundle import install as installing
from kit.bundle.box import Machine
from kit.bundle.releases import Releases
from kit.bundle.stored import open_bundle
from kit.bundle.verify import Verified, verify
from kit.engine import Engine, connect, private
from kit.engine.layout import Layout
from kit.errors import MissingError
from kit.home import kit_home
from kit.image import build
from kit.image.recipe import Recipe
from kit.store.store import Store
from tests.docker.small import with_text

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,  # an engine of its own, three builds
    pytest.mark.skipif(private.why_not_here() is not None, reason="needs root on Debian or Ubuntu"),
]
SIZE = 4 << 30
LARGE = 300 << 20


class OnSmallDisk(Layout):
    """An engine of the kit's own packages; its data lies where the small file system is mounted."""

    @property
    def root(self) -> Path:
        return Layout(kit_home()).root

    @property
    def data(self) -> Path:
        return self.home / "disk" / "data"


@dataclass
class Disk:
    """The small file system."""

    place: Path

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.place).free

    def fill(self, leave: int) -> None:
        """Take all that is free but `leave` bytes."""
        with (self.place / "filler").open("wb") as handle:
            os.posix_fallocate(handle.fileno(), 0, max(1, self.free - leave))

    def clear(self) -> None:
        (self.place / "filler").unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    place, behind = tmp_path / "disk", tmp_path / "disk.img"
    place.mkdir()
    with behind.open("wb") as handle:
        handle.truncate(SIZE)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", behind], check=True)
    if subprocess.run(["mount", "-o", "loop", behind, place]).returncode != 0:
        pytest.skip("this machine has no loop devices")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
        behind.unlink()


@pytest.fixture
def engine_there(engine: dict[str, Any], disk: Disk, tmp_path: Path) -> Iterator[Engine]:
    own, layout = connect(), OnSmallDisk(tmp_path)
    if own.kind != "private":
        pytest.skip("a second engine is made of the packages of the kit's own")
    settings = tuple(sorted((dict(own.env) | {"DOCKER_HOST": layout.host}).items()))
    try:
        private.start(layout, quiet)
        yield replace(own, host=layout.host, data_root=str(layout.data), env=settings)
    finally:
        disk.clear()
        private.remove(layout, quiet)


def quiet(text: str) -> None:
    return None


def when(word: str, work: Callable[[], None]) -> Callable[[str], None]:
    """Something to be told of progress, which does `work` once a line holds `word`."""
    return lambda text: work() if word in text else None


class Here(Machine):
    """This machine with that engine, and in place of vLLM a container that sleeps."""

    def __init__(self, releases: Releases, engine: Engine, loading: Callable[[], None]):
        super().__init__(releases, quiet, self._progress)
        self.engine, self.loading = engine, loading

    @contextlib.contextmanager
    def _progress(self, total: int, what: str) -> Iterator[Callable[[int], None]]:
        counted = 0

        def count(size: int) -> None:
            nonlocal counted
            before, counted = counted, counted + size
            if before < total // 3 <= counted:
                self.loading()

        yield count

    def prepare(self, verified: Verified, folder: str) -> None:
        pass

    def is_prepared(self, release: str) -> bool:
        return True

    def doctor(self, release: str) -> int:
        return 0

    def is_up(self, release: str) -> bool:
        return release in self.running

    def start(self, release: str) -> int:
        image = self.releases.manifest(release).image.reference
        with contextlib.closing(self.engine.client()) as client:
            client.containers.run(image, "sleep infinity", name=release, detach=True, network_mode="none", init=True)
        return 0

    def stop(self, release: str) -> None:
        with contextlib.closing(self.engine.client()) as client:
            client.containers.get(release).remove(force=True)

    @property
    def running(self) -> dict[str, str]:
        """Name -> since when, of all containers that run."""
        with contextlib.closing(self.engine.client()) as client:
            return {c.name: str(c.attrs["State"]["StartedAt"]) for c in client.containers.list()}


@pytest.fixture
def pack(engine_there: Engine, tmp_path: Path) -> Callable[..., Verified]:
    """Packs an image of that engine, with nothing else in the bundle."""

    def make(recipe: Recipe, name: str, into: Path = tmp_path) -> Verified:
        with contextlib.closing(engine_there.client()) as client:
            opened = source.opened(client, Path(engine_there.data_root), recipe.reference, tmp_path, quiet)
            with opened as archive:
                image = images.canonical(archive, recipe.reference)
                described = manifest.Manifest(
                    name="test", release=name, kit="0", vllm="0.0.0", device="cpu", epoch=0, python=[],
                    qualified=False, sources=False,
                    image=manifest.Image(
                        reference=recipe.reference, config=archive.config_digest, manifest=image.manifest_digest,
                        layers=list(archive.diff_ids), size=image.size,
                    ),
                )  # fmt: skip
                target = write.FolderTarget(into / name)
                write.write_bundle(target, {}, image, lambda: {"bundle.json": described.to_bytes()}, None)
        return verify(open_bundle(into / name), None, now=datetime.now(UTC))

    return make


def with_large(recipe: Recipe, name: str) -> Recipe:
    """`recipe` with a file that takes much of a small disk, of bytes that do not compress."""
    made = with_text(recipe, name)
    line = f"head -c {LARGE} /dev/urandom > /opt/large && sh /inside/settle"
    return replace(
        made, files={**made.files, "Dockerfile": made.files["Dockerfile"].replace(b"sh /inside/settle", line.encode())}
    )


def test_the_engines_disk_fills_during_a_build(small: Recipe, engine_there: Engine, disk: Disk):
    store, recipe = Store.default(), with_large(small, "full")
    with pytest.raises(MissingError, match="filled up during the build") as caught:
        build.ensure(recipe, engine_there, store, when("installing the wheels", lambda: disk.fill(100 << 20)))
    assert caught.value.exit_code == 5 and "df -h" in str(caught.value.hint)
    assert build.find(recipe, engine_there) is None
    assert not list((kit_home() / "made").glob("build-test-small-part-*"))
    disk.clear()
    assert build.ensure(recipe, engine_there, store, quiet).fresh


def test_the_engines_disk_fills_while_a_bundle_is_installed(
    small: Recipe,
    engine_there: Engine,
    disk: Disk,
    pack: Callable[..., Verified],
    tmp_path: Path,
):
    store, first, second = Store.default(), with_text(small, "first"), with_large(small, "second")
    for recipe in (first, second):
        build.ensure(recipe, engine_there, store, quiet)
    one, two = pack(first, "one"), pack(second, "two")
    with contextlib.closing(engine_there.client()) as client:
        client.images.remove(second.reference)
        client.api.prune_builds()
    releases = Releases(tmp_path / "opt")

    def install(bundle: Verified, loading: Callable[[], None]) -> Here:
        box = Here(releases, engine_there, loading)
        installing.install(bundle, releases, box, quiet, stage_only=False, now=datetime.now(UTC))
        return box

    box = install(one, lambda: None)
    served = box.running
    assert list(served) == ["one"] and releases.current == "one"
    for _ in range(2):
        with pytest.raises(MissingError, match="no space left on the engine's disk") as caught:
            install(two, lambda: disk.fill(20 << 20))
        assert caught.value.exit_code == 5 and "docker system df" in str(caught.value.hint)
        assert box.running == served  # the same container, since the same moment
        assert releases.current == "one" and releases.pending is None and not box.has_image(two.manifest.image)
        disk.clear()
    install(two, lambda: None)
    assert list(box.running) == ["two"] and releases.current == "two"
    assert [p.name for p in (releases.root / "releases").iterdir() if p.name.startswith(".")] == []


def test_the_disk_fills_while_a_bundle_is_packed(
    small: Recipe,
    engine_there: Engine,
    disk: Disk,
    pack: Callable[..., Verified],
    tmp_path: Path,
):
    build.ensure(small, engine_there, Store.default(), quiet)
    whole = pack(small, "whole")
    out = disk.place / "out"
    disk.fill(10 << 20)
    for _ in range(2):
        with pytest.raises(MissingError, match="no space left while writing") as caught:
            pack(small, "whole", out)
        assert caught.value.exit_code == 5 and "df -h" in str(caught.value.hint)
        assert not (out / "whole").exists()
    disk.clear()
    assert pack(small, "whole", out).sums == whole.sums
    assert [path.name for path in out.iterdir()] == ["whole"]
