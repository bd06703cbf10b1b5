"""Patches on real releases and on the real engine: outlook of ten releases, the twin's image, rehearsal, proof."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kit.patches import catalog
from kit.reference import predict
from tests.docker.harness import ROOT, run_kit

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.slow  # wheels of ten releases, and an engine of 8 GB

RELEASES = json.loads((ROOT / "tests" / "data" / "patches" / "releases.json").read_text())
FETCHED = ("0.15.1", "0.16.0", "0.17.0", "0.17.1", "0.18.0", "0.20.2", "0.22.0", "0.25.1", "0.32.0", "0.33.0")
PATCHED = "/opt/venv/lib/python3.11/site-packages/vllm/config/speculative.py"


@pytest.mark.parametrize("vllm", FETCHED)
def test_the_outlook_on_a_release(vllm: str) -> None:
    done = run_kit("patches", "check", "--vllm", vllm, "--json", timeout=900)
    assert {p["id"]: p["outcome"] for p in done.json["patches"]} == RELEASES[vllm]["outcomes"]
    assert done.code == (3 if vllm == "0.15.1" else 0)


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The production kit.yaml in a folder of its own; its model is not on this machine."""
    folder = tmp_path_factory.mktemp("production")
    (folder / "kit.yaml").write_text((ROOT / "kit.yaml").read_text())
    return folder / "kit.yaml"


@pytest.fixture(scope="module")
def rehearsed(engine: dict[str, Any], production: Path) -> dict[str, Any]:
    """What `kit rehearse` says of it; the twin's image is there afterwards."""
    done = run_kit("rehearse", "-f", production, "--form", "kimi-k2.5", "--json", timeout=1800)
    assert done.code == 0, done.err + done.out
    return done.json


@pytest.mark.timeout(2400)
def test_the_rehearsal(rehearsed: dict[str, Any]) -> None:
    each = [predict("aux", token, 100, 5) for token in (5, 64, 99)]
    assert rehearsed["verdict"] == "pass"
    assert rehearsed["patches"] == [diff.id for diff in catalog.product().series[0].diffs]
    assert rehearsed["smoke"]["num_drafts"] == sum(p.num_drafts for p in each)
    assert rehearsed["smoke"]["num_accepted_tokens"] == sum(p.num_accepted_tokens for p in each)
    assert rehearsed["states"]["layers"] == [2, 4, 5]
    assert rehearsed["states"]["compared"] == rehearsed["states"]["equal"] >= 3 * 18


@pytest.mark.timeout(2400)
def test_each_patch_is_red_without_and_green_with_it(rehearsed: dict[str, Any], production: Path) -> None:
    done = run_kit("patches", "prove", "-f", production, "--json", timeout=2400)
    assert done.code == 0, done.err + done.out
    assert [(p["id"], p["red_without"], p["green_with"]) for p in done.json["patches"]] == [
        (diff.id, True, True) for diff in catalog.product().series[0].diffs
    ]
    assert len(done.json["starts"]) == 8


@pytest.fixture
def client(engine: dict[str, Any]) -> Iterator[DockerClient]:
    from kit.engine import connect

    with contextlib.closing(connect().client()) as made:
        yield made


def ends(client: DockerClient, rehearsed: dict[str, Any], **options: Any) -> tuple[int, str]:
    """Exit status and output of the twin's image, asked to run `true`."""
    container = client.containers.create(rehearsed["image"], ["true"], **options)
    try:
        container.start()
        status = container.wait(timeout=60)["StatusCode"]
        return status, container.logs().decode()
    finally:
        container.remove(force=True)


def test_a_container_starts_only_as_it_was_built(
    client: DockerClient, rehearsed: dict[str, Any], tmp_path: Path
) -> None:
    assert ends(client, rehearsed) == (0, "")
    (tmp_path / "speculative.py").write_text("# another file\n")
    other = {str(tmp_path / "speculative.py"): {"bind": PATCHED, "mode": "ro"}}
    status, said = ends(client, rehearsed, volumes=other)
    assert status == 6 and "vllm/config/speculative.py is not the file that was built and proven" in said


def test_the_twin_does_not_serve_as_a_product(client: DockerClient, rehearsed: dict[str, Any]) -> None:
    status, said = ends(client, rehearsed, environment={"KIT_REHEARSAL": "0"})
    assert status == 2 and "cpu-speculation, which is for rehearsals only: it must not serve" in said


def test_a_release_without_patches_has_nothing_to_prove(production: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(production.read_text())
    values["engine"]["vllm"] = "0.33.0"
    (tmp_path / "kit.yaml").write_text(yaml.safe_dump(values))
    done = run_kit("patches", "prove", "-f", tmp_path / "kit.yaml")
    assert done.code == 2 and "there is nothing to prove: vLLM 0.33.0 has no patches" in done.err
