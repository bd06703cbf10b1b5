"""Images with a real BuildKit: the same bytes from two builds, differences named, failures that leave nothing."""

from __future__ import annotations

import contextlib
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kit.engine import Engine, connect, private
from kit.engine.layout import Layout
from kit.errors import IntegrityError, KitError
from kit.home import kit_home
from kit.image import build, verify
from kit.image.compare import differences
from kit.image.recipe import Recipe
from kit.store import vendor
from kit.store.inputs import items_of
from kit.store.store import Store
from tests.docker.harness import EMBEDDED, run_kit, with_ctrl_c
from tests.docker.small import with_text


@pytest.fixture
def docker(small: Recipe) -> Iterator[Engine]:
    engine = connect()
    yield engine
    with contextlib.closing(engine.client()) as client:
        for image in client.images.list(name="vllm-kit/test-small"):
            for tag in image.tags:
                client.images.remove(tag, force=True)


def quiet(text: str) -> None:
    return None


def test_two_builds_without_caches_are_equal_and_a_second_call_does_nothing(small: Recipe, docker: Engine):
    store = Store.default()
    first = build.ensure(small, docker, store, quiet)
    assert first.fresh
    again = build.ensure(small, docker, store, quiet)
    assert not again.fresh and again.id == first.id
    new, found = verify.rebuilt(small, docker, store, quiet)
    assert found == []
    old = verify.read_back(small.reference, docker)
    assert verify.identity(new) == verify.identity(old)
    assert first.diff_ids == tuple(layer.diff_id for layer in old.layers)


class Classic(Layout):
    """An engine of the kit's own packages with the image store that Docker had before containerd's."""

    @property
    def root(self) -> Path:
        return Layout(kit_home()).root

    def daemon_config(self) -> dict[str, Any]:
        chosen = {"storage-driver": "overlay2", "features": {"containerd-snapshotter": False}}
        return super().daemon_config() | chosen


def test_both_image_stores_give_the_same_configuration_and_layers(small: Recipe, docker: Engine, tmp_path: Path):
    if docker.kind != "private":
        pytest.skip("a second engine is made of the packages of the kit's own")
    store, layout = Store.default(), Classic(tmp_path)
    settings = dict(docker.env) | {"DOCKER_HOST": layout.host}
    classic = replace(docker, host=layout.host, containerd_store=False, data_root=str(layout.data),
                      env=tuple(sorted(settings.items())))  # fmt: skip
    try:
        private.start(layout, quiet)
        with contextlib.closing(classic.client()) as client:
            assert client.info()["Driver"] == "overlay2"
        assert build.ensure(small, classic, store, quiet).fresh
        build.ensure(small, docker, store, quiet)
        one, two = (verify.read_back(small.reference, engine) for engine in (docker, classic))
    finally:
        private.remove(layout, quiet)
    assert list(differences(one, two)) == []
    assert verify.identity(one) == verify.identity(two)


def test_a_difference_is_named_with_its_file(small: Recipe, docker: Engine):
    store = Store.default()
    other = with_text(small, "two")
    build.ensure(small, docker, store, quiet)
    build.ensure(other, docker, store, quiet)
    one, two = (verify.read_back(r.reference, docker) for r in (small, other))
    rows = [(d.place, d.why) for d in differences(one, two)]
    assert rows[0] == ("configuration Labels", "content")
    assert rows[1:] == [("layer 1: opt/text", "content")]


def test_the_container_has_nothing_of_the_build_machine(small: Recipe, docker: Engine):
    build.ensure(small, docker, Store.default(), quiet)
    image = verify.read_back(small.reference, docker)
    paths = {path for layer in image.layers for path in layer.entries}
    for path in ("etc/hostname", "etc/machine-id", "etc/apt", "var/lib/apt", "wheels", "requirements.lock", "inside"):
        assert path not in paths, path
    assert max(e.mtime for layer in image.layers for e in layer.entries.values()) <= small.epoch
    assert image.config["config"]["User"] == "2000:2000"


def test_a_step_that_fails_leaves_no_image_and_no_files(small: Recipe, docker: Engine):
    broken = replace(small, files={**small.files, "inside/settle": b"echo it broke >&2; exit 1\n"})
    with pytest.raises(KitError) as caught:
        build.ensure(broken, docker, Store.default(), quiet)
    assert caught.value.exit_code == 1 and "it broke" in " ".join(caught.value.evidence)
    assert build.find(broken, docker) is None
    assert not list((kit_home() / "made").glob("build-test-small-part-*"))


def test_a_damaged_wheel_in_the_store_stops_the_build_with_both_hashes(small: Recipe, docker: Engine, tmp_path: Path):
    build.fetch(small, Store.default(), quiet)
    vendor.give(tmp_path / "carried", Store.default(), items_of(small))
    store = Store(tmp_path / "store")  # copies: the machine's own store stays as it is
    assert vendor.take(tmp_path / "carried", store, items_of(small)) == len(items_of(small))
    wheel = small.wheels[0]
    path = store.path(wheel.sha256)
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    with pytest.raises(IntegrityError) as caught:
        build.ensure(with_text(small, "three"), docker, store, quiet)
    assert f"sha256 locked: {wheel.sha256}" in caught.value.evidence
    vendor.take(tmp_path / "carried", store, items_of(small))
    assert build.ensure(with_text(small, "three"), docker, store, quiet).fresh


def test_an_image_of_somebody_else_under_our_name_is_not_taken(small: Recipe, docker: Engine):
    build.ensure(small, docker, Store.default(), quiet)
    other = with_text(small, "four")
    with contextlib.closing(docker.client()) as client:
        client.images.get(small.reference).tag(*other.reference.split(":"))
    assert build.find(other, docker) is None
    assert build.ensure(other, docker, Store.default(), quiet).fresh


def test_an_interrupted_build_leaves_nothing_and_the_next_completes(small: Recipe, docker: Engine):
    """Ctrl-C in the middle of a step, as a person types it: to the whole process group."""
    slow = replace(small, files={**small.files, "inside/settle": b"sleep 30\n"})
    script = (
        "import pickle, sys; from kit.image import build; from kit.engine import connect;"
        "from kit.store.store import Store; recipe = pickle.load(sys.stdin.buffer);"
        "build.ensure(recipe, connect(), Store.default(), lambda text: print(text, flush=True))"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=with_ctrl_c,
    )
    assert child.stdin and child.stdout
    child.stdin.write(pickle.dumps(slow))
    child.stdin.close()
    for line in child.stdout:
        if b"installing the wheels" in line:
            break
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == -signal.SIGINT or child.returncode == 1
    assert build.find(slow, docker) is None
    assert not list((kit_home() / "made").glob("build-test-small-part-*"))
    assert build.ensure(small, docker, Store.default(), quiet).reference == small.reference


def test_the_image_is_the_one_that_the_lock_records(image: None):
    """Bit for bit what was built when the lock was reviewed, on whatever machine this runs."""
    done = run_kit("image", "verify", "-f", EMBEDDED, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert found["verdict"] == "pass"
    if not found["compared"]:
        pytest.skip("the inputs changed since an identity was recorded: kit image verify -f FILE --record")
    recorded = yaml.safe_load(EMBEDDED.with_suffix(".lock").read_text())["image"]["identity"]
    assert {key: found[key] for key in recorded} == recorded


def test_nothing_to_do_is_quick_and_said(image: None):
    done = run_kit("image", "build", "-f", EMBEDDED)
    assert done.code == 0 and "nothing to do" in done.err
