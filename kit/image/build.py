"""Builds an image with BuildKit: from the store, without network, the same bytes each time."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit import files, proc
from kit.engine import Engine
from kit.home import kit_home
from kit.image import gpu_code
from kit.image.base import base_tar
from kit.image.progress import BuildProgress, Say, explain, silent
from kit.image.recipe import CODE_LABEL, INPUT_LABEL, PLATFORM, Recipe
from kit.lock.archive import debian
from kit.store.fetch import fetch_debs, fetch_wheels, wheel_item
from kit.store.store import Store, link_or_copy


@dataclass(frozen=True)
class Built:
    """An image of the engine. `id` is the engine's own name for it; `fresh` says that it was built just now."""

    reference: str
    id: str
    diff_ids: tuple[str, ...]
    fresh: bool


def find(recipe: Recipe, engine: Engine) -> Built | None:
    """The engine's image of exactly these inputs; None when there is none."""
    from docker.errors import ImageNotFound

    with contextlib.closing(engine.client()) as client:
        try:
            image: Any = client.images.get(recipe.reference)
        except ImageNotFound:
            return None
    if image.labels.get(INPUT_LABEL) != recipe.digest:
        return None  # somebody else's image under our name
    return Built(recipe.reference, str(image.id), tuple(image.attrs["RootFS"]["Layers"]), fresh=False)


def fetch(recipe: Recipe, store: Store, say: Say) -> int:
    """Bring every input of `recipe` into the store; returns how many files were fetched."""
    with tempfile.TemporaryDirectory(prefix="kit-apt-") as folder:
        count = fetch_debs(store, recipe.base.debs, lambda: debian(recipe.base.suite, Path(folder), signed=False), say)
    return count + fetch_wheels(store, recipe.wheels, recipe.python, recipe.glibc, say)


def ensure(
    recipe: Recipe, engine: Engine, store: Store, say: Say, *, again: bool = False, detail: Say = silent
) -> Built:
    """The image of `recipe`: the engine's, or built now (`again`: in any case, and without BuildKit's cache).

    Raises MissingError without buildx, space or network, IntegrityError for a wrong hash, KitError
    when a build step fails. Interrupted at any point it leaves no image and no files.
    """
    if not again and (there := find(recipe, engine)):
        return there
    engine.need_plugin("buildx")
    lock = kit_home() / "made" / f"build-{recipe.name}.lock"
    with files.locked(lock, what=f"building an image of {recipe.name}", wait=True, on_wait=say):
        if not again and (there := find(recipe, engine)):
            return there
        _need_space(recipe, engine, sum(w.size for w in recipe.wheels))  # at the very least, before the fetch
        fetch(recipe, store, say)
        base = base_tar(recipe.base, store, say)
        with staged(recipe, base, store) as folder:
            _need_space(recipe, engine, _unpacked(folder / "wheels"))
            buildx(recipe, engine, folder, output(recipe.reference, engine), say, no_cache=again, detail=detail)
    made = find(recipe, engine)
    if made is None:
        raise proc.ProcessFailed(f"the build ended well, but the engine has no image {recipe.reference}")
    return Built(made.reference, made.id, made.diff_ids, fresh=True)


def output(reference: str, engine: Engine) -> str:
    """The exporter of a build into the engine's own image store, under the name `reference`.

    Layers are kept uncompressed where the store keeps blobs: gzip costs more time than the build,
    and the identity (configuration digest and diffIDs) does not depend on it.
    """
    if engine.containerd_store:
        return f"type=image,name={reference},unpack=true,compression=uncompressed"
    return f"type=docker,name={reference}"


def buildx(
    recipe: Recipe, engine: Engine, folder: Path, to: str, say: Say, *, no_cache: bool, detail: Say = silent
) -> None:
    """One `docker buildx build` of `folder` (see `staged`) to the exporter `to`; all output goes to `detail`."""
    command = engine.cli("buildx", "build", "--progress=plain", "--network=none", "--provenance=false", "--sbom=false")
    command += [f"--platform={PLATFORM}", f"--build-arg=SOURCE_DATE_EPOCH={recipe.epoch}"]
    command += [f"--label={INPUT_LABEL}={recipe.digest}", f"--build-context=wheels={folder / 'wheels'}"]
    if recipe.gpu:
        say("image: reading for which GPUs the modules have code")
        modules = gpu_code.of_wheels((w.file, folder / "wheels" / w.file) for w in recipe.wheels)
        command += [f"--label={CODE_LABEL}={gpu_code.to_label(modules)}"]
    command += ["--no-cache"] if no_cache else []
    command += [f"--output={to}", str(folder / "context")]
    progress = BuildProgress(say, detail)
    done = proc.stream(command, progress.line, env=engine.environment, check=False)
    if done.code != 0:
        raise explain(done.out.splitlines(), engine.data_root)


@contextlib.contextmanager
def staged(recipe: Recipe, base: Path, store: Store) -> Iterator[Path]:
    """The folder a build reads: context/ (recipe's files, base.tar) and wheels/; verified, fixed times and modes."""
    parent = kit_home() / "made"
    for old in parent.glob(f"build-{recipe.name}-part-*"):  # of a kit that was killed
        shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"build-{recipe.name}-part-", dir=parent))
    try:
        context = folder / "context"
        for name, content in recipe.files.items():
            file = context / name
            files.write(file, content, 0o755 if name in recipe.executables else 0o644)
            os.utime(file, (recipe.epoch, recipe.epoch))
        link_or_copy(base, context / "base.tar")
        store.stage((wheel_item(w) for w in recipe.wheels), folder / "wheels")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _need_space(recipe: Recipe, engine: Engine, unpacked: int) -> None:
    """`unpacked`: what the wheels hold, in bytes. The engine keeps layers and their unpacked form, bytecode on top:
    three images took 2.1 to 2.4 times as much. BuildKit copies the wheels, the base and what it works on."""
    size = unpacked * 9 // 4 + sum(w.size for w in recipe.wheels) + (2 << 30)
    if Path(engine.data_root).is_dir():  # the engine may run elsewhere
        files.need_space(Path(engine.data_root), size, f"building {recipe.reference}")


def _unpacked(wheels: Path) -> int:
    """Bytes of all files in the wheels of a folder, whose hashes were checked."""
    total = 0
    for path in wheels.iterdir():
        with zipfile.ZipFile(path) as archive:
            total += sum(info.file_size for info in archive.infolist())
    return total
