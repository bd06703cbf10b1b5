"""The operator's machine as a switch of releases needs it: Docker, Python, and the kit of each release. An edge."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from kit import files, proc
from kit.bundle import names
from kit.bundle.install import copy
from kit.bundle.manifest import Image
from kit.bundle.parts import CHUNK, Reader
from kit.bundle.releases import Releases
from kit.bundle.switch import Say
from kit.bundle.verify import HINT, Verified
from kit.errors import IntegrityError, KitError, MissingError
from kit.render.container import name_in
from kit.serve.container import docker_errors, find, remove

if TYPE_CHECKING:
    from kit.engine import Engine

# `kit status`: ready, or not ready; anything else means that no container of it runs
UP = (0, 3)


@dataclass
class Machine:
    """This machine, with the releases in one folder. `progress` (bytes in all, what for) shows long work."""

    releases: Releases
    say: Say
    progress: Callable[[int, str], AbstractContextManager[Callable[[int], None]]]

    @cached_property
    def engine(self) -> Engine:
        from kit.engine import connect

        return connect(self.say)

    def has_image(self, image: Image) -> bool:
        from docker.errors import ImageNotFound

        with closing(self.engine.client()) as client, docker_errors(f"looking for image {image.reference}"):
            try:
                found = client.images.get(image.reference).attrs
            except ImageNotFound:
                return False
        return found["Id"] in (image.config, image.manifest) and found["RootFS"]["Layers"] == image.layers

    def load(self, verified: Verified) -> None:
        image = verified.manifest.image
        data_root = Path(self.engine.data_root)
        if data_root.is_dir():  # an engine on this machine, whose disk we see: the archive's layers, and unpacked
            space = 2 * image.size if self.engine.containerd_store else image.size
            files.need_space(data_root, space, "loading the image", f"df -h {data_root}; docker system df")
        with (
            self.progress(image.size, "loading the image") as count,
            closing(self.engine.client(timeout=3600)) as client,
            docker_errors(f"loading image {image.reference}"),
        ):
            for answer in client.api.load_image(_unpacked(verified, count)):  # type: ignore[no-untyped-call]
                if "errorDetail" in answer or "error" in answer:
                    raise _not_loaded(image, answer)

    def prepare(self, verified: Verified, folder: str) -> None:
        place = self.releases.root / "releases" / folder
        wheels, venv, new = place / ".wheels", place / "venv", place / ".venv.part"
        for stale in (wheels, new):
            shutil.rmtree(stale, ignore_errors=True)
        for name in verified.sums:
            if name.startswith("kit/"):
                copy(verified, name, wheels / Path(name).name)
        wanted = wheels / f"requirements-{sys.version_info.major}.{sys.version_info.minor}.txt"
        if not wanted.is_file():
            raise MissingError(
                f"the bundle has no wheels for Python {sys.version_info.major}.{sys.version_info.minor}",
                hint=f"run its install.sh with PYTHON= one of {', '.join(verified.manifest.python)}",
            )
        hint = "Debian and Ubuntu: apt-get install python3-venv"
        proc.run([sys.executable, "-m", "venv", "--without-pip", new], hint=hint)
        pip: list[str | Path] = [new / "bin" / "python", f"{next(wheels.glob('pip-*.whl'))}/pip", "install"]
        pip += ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", "--no-cache-dir", "--no-compile"]
        proc.run([*pip, "--require-hashes", f"--find-links={wheels}", f"--requirement={wanted}"])
        proc.run([*pip, next(wheels.glob("vllm_kit-*.whl"))])
        shutil.rmtree(wheels)
        shutil.rmtree(venv, ignore_errors=True)
        new.rename(venv)

    def is_prepared(self, release: str) -> bool:
        python = self.releases.folder(release) / "venv" / "bin" / "python"
        try:
            return proc.run([python, "-I", "-m", "kit", "--version"], check=False).code == 0
        except MissingError:
            return False

    def doctor(self, release: str) -> int:
        return self._kit(release, "doctor")

    def is_up(self, release: str) -> bool:
        kit = self.releases.folder(release) / "kit"
        with suppress(MissingError):  # of a damaged release only the engine can tell
            if proc.run([kit, "status", "--json"], check=False, cwd=Path("/")).code in UP:
                return True
        folder = self.releases.root.resolve() / "releases" / release / "deployment"
        with closing(self.engine.client()) as client:
            found = find(client, name_in(self.releases.manifest(release).name, folder))
        return found is not None and found.status in ("running", "paused")

    def start(self, release: str) -> int:
        self._wait_for_orphan(release)
        return self._kit(release, "up")

    def stop(self, release: str) -> None:
        self._kit(release, "down")

    def clear(self, release: str, name: str) -> None:
        folder = self.releases.root.resolve() / "releases" / release  # as `kit` there sees it
        container = name_in(name, folder / "deployment")
        with closing(self.engine.client()) as client:
            if (found := find(client, container)) is not None:
                remove(found)
            with docker_errors(f"removing the caches of {release}"):
                for volume in client.volumes.list(filters={"name": f"{container}-cache-"}):
                    volume.remove()

    def remove_image(self, image: Image) -> bool:
        from docker.errors import APIError

        if not self.has_image(image):
            return False
        with closing(self.engine.client(timeout=600)) as client, docker_errors(f"removing image {image.reference}"):
            try:
                client.images.remove(image.reference)
            except APIError as error:
                if error.status_code != HTTPStatus.CONFLICT:
                    raise
                self.say(f"image {image.reference} stays: a container uses it")
                return False
        return True

    def _kit(self, release: str, *verb: str) -> int:
        """Run the kit of a release; what it prints is talk here. Returns its exit code."""
        kit = self.releases.folder(release) / "kit"
        return proc.stream([kit, *verb], self.say, check=False, cwd=Path("/")).code

    def _wait_for_orphan(self, release: str) -> None:
        """A killed installation may have left its `kit up` at work: let that end first."""
        name = self.releases.manifest(release).name
        lock = self.releases.folder(release) / "deployment" / ".kit" / name / "lock"
        with files.locked(lock, what="a start", wait=True):
            pass


def _unpacked(verified: Verified, progress: Callable[[int], None]) -> Iterator[bytes]:
    """The image's archive, decompressed, each part hashed as it is read.

    Raises IntegrityError before the last byte is given away when a part is not the one that was
    verified, so that the engine never sees a whole archive of another image.
    """
    import zstandard

    whole = verified.bundle.parts(names.IMAGE) or [names.IMAGE]
    source = _Checked(verified, whole)
    stream = cast("IO[bytes]", source)
    try:
        held = b""
        for chunk in zstandard.ZstdDecompressor().read_to_iter(stream, read_size=CHUNK, write_size=CHUNK):
            if held:
                yield held
                progress(len(held))
            held = chunk
        source.finish()
        yield held
    except zstandard.ZstdError as error:
        raise IntegrityError(f"the image's archive is damaged: {error}", hint=HINT) from None


class _Checked:
    """A reader of the parts of a file that compares each with its hash at its end."""

    def __init__(self, verified: Verified, whole: list[str]):
        self._verified, self._left = verified, list(whole)
        self._name, self._source, self._hash = "", Reader([]), hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        while not (data := self._source.read(size) or b""):
            self._compare()
            if not self._left:
                return b""
            self._name = self._left.pop(0)
            self._source, self._hash = Reader(self._verified.bundle.files[self._name]), hashlib.sha256()
        self._hash.update(data)
        return data

    def finish(self) -> None:
        """Read what is left and compare it."""
        while self.read(CHUNK):
            pass

    def _compare(self) -> None:
        self._source.close()
        if self._name and self._hash.hexdigest() != self._verified.sums[self._name]:
            raise IntegrityError(f"{self._name} changed while it was being loaded", hint=HINT)


def _not_loaded(image: Image, answer: dict[str, Any]) -> KitError:
    text = str(answer.get("errorDetail", {}).get("message") or answer.get("error"))
    if "no space left" in text.lower():
        return MissingError(
            f"no space left on the engine's disk while loading {image.reference}",
            evidence=[text],
            hint="docker system df; free some, then run this again",
        )
    return KitError(f"the engine did not load {image.reference}: {text}", hint="kit engine status")
