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

from kit.engine import Engine, connect
from kit.errors import IntegrityError, KitError
from kit.home import kit_home
from kit.image import build, load, verify
from kit.image.compare import differences
from kit.image.recipe import Recipe
from kit.lock import wheels as wheel_list
from kit.patches import catalog
from kit.patches.plan import plan
from kit.store import vendor
from kit.store.inputs import items_of
from kit.store.store import Store
from tests.docker.harness import EMBEDDED, run_kit, with_ctrl_c

# A few small wheels on the real base: the same way of building, in seconds.
SMALL = ("annotated-types", "idna", "packaging", "typing-extensions")
DOCKERFILE = """FROM scratch
ADD base.tar /
RUN --mount=type=bind,from=wheels,target=/wheels --mount=type=bind,source=requirements.lock,target=/requirements.lock \\
    --mount=type=bind,source=inside,target=/inside --mount=type=tmpfs,target=/tmp \\
    python3 -m venv --without-pip /opt/venv \\
    && PYTHONPATH="$(echo /usr/share/python-wheels/pip-*.whl)" /opt/venv/bin/python -m pip install --no-index \\
       --find-links=/wheels --require-hashes --no-deps --no-compile --quiet --requirement=/requirements.lock \\
    && echo {text} > /opt/text && sh /inside/settle {epoch}
USER 2000:2000
LABEL kit.recipe="small"
"""


@pytest.fixture(scope="module")
def small(engine: dict[str, Any]) -> Recipe:
    whole = load.load("vllm-cpu", "0.32.0", plan("0.32.0", [], catalog.product(), method=None))
    wheels = tuple(w for w in whole.wheels if w.name in SMALL)
    assert len(wheels) == len(SMALL)
    files = {**whole.files, "requirements.lock": wheel_list.dump(wheels).encode()}
    return with_text(replace(whole, name="test-small", wheels=wheels, files=files), "one")


def with_text(recipe: Recipe, text: str) -> Recipe:
    dockerfile = DOCKERFILE.format(text=text, epoch=recipe.epoch).encode()
    return replace(recipe, files={**recipe.files, "Dockerfile": dockerfile})


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
    assert verify.identity(new, exact=True) == verify.identity(old, exact=True)
    assert first.diff_ids == tuple(layer.diff_id for layer in old.layers)


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


def test_nothing_to_do_is_quick_and_said(image: None):
    done = run_kit("image", "build", "-f", EMBEDDED)
    assert done.code == 0 and "nothing to do" in done.err
