"""Is the image here the one that was qualified?"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kit.config import Deployment, load
from kit.errors import IntegrityError, MissingError, UsageError
from kit.serve import identity
from kit.serve.identity import CONTENT, Recorded
from kit.serve.status import Status, _warnings

INPUT = "5" * 64
NAME = f"vllm-kit/vllm-cpu:0.32.0-{INPUT[:12]}"
CONFIG, MANIFEST = f"sha256:{'c' * 64}", f"sha256:{'d' * 64}"
LAYERS = (f"sha256:{'1' * 64}", f"sha256:{'2' * 64}")
LOCK = f"""# written by kit lock
schema: kit.lock/1
image:
  reference: {NAME}
  input: '{INPUT}'
  identity:
    config: {CONFIG}
    layers:
    - {LAYERS[0]}
    - {LAYERS[1]}
files:
  not: [parsed
"""


def attrs(**changes: Any) -> dict[str, Any]:
    """An image as an engine with the containerd store inspects it."""
    labels = {"kit.input": changes.pop("label", INPUT)}
    layers = changes.pop("layers", list(LAYERS))
    return {"Id": MANIFEST, "Config": {"Labels": labels}, "RootFS": {"Layers": layers}} | changes


def client(found: dict[str, Any]) -> Any:
    return SimpleNamespace(images=SimpleNamespace(get=lambda name: SimpleNamespace(attrs=found)))


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    folder = tmp_path / "release" / "deployment"
    folder.mkdir(parents=True)
    example = Path(__file__).parents[3] / "examples" / "embedded.yaml"
    (folder / "kit.yaml").write_text(example.read_text())
    return load(folder / "kit.yaml")


@pytest.fixture
def said() -> list[str]:
    return []


def check(deployment: Deployment, found: dict[str, Any], said: list[str], data_root: Path = Path("/nowhere")) -> None:
    identity.check(deployment, client(found), NAME, data_root, said.append)


def test_what_the_lock_records(deployment, said):
    lock = deployment.file.with_suffix(".lock")
    assert identity.recorded(deployment) is None
    check(deployment, attrs(label="other"), said)
    lock.write_text(LOCK)
    assert identity.recorded(deployment) == Recorded(lock, INPUT, CONFIG, LAYERS)
    check(deployment, attrs(), said)
    assert said == ["the image is the one that kit.lock records"]


@pytest.mark.parametrize(
    ("found", "evidence"),
    [
        (attrs(label="6" * 64), f"inputs: recorded {INPUT}, found {'6' * 64}"),
        (attrs(layers=[LAYERS[0], MANIFEST]), f"layer 1: recorded {LAYERS[1]}, found {MANIFEST}"),
        (attrs(layers=[LAYERS[0]]), "layers: recorded 2, found 1"),
    ],
)
def test_another_image_under_the_name_is_refused(deployment, said, found, evidence):
    deployment.file.with_suffix(".lock").write_text(LOCK)
    with pytest.raises(IntegrityError, match="nothing was started") as caught:
        check(deployment, found, said)
    assert caught.value.evidence == [evidence] and "kit image verify" in str(caught.value.hint)


def test_the_configuration_is_read_where_the_engine_keeps_it_in_files(deployment, said, tmp_path):
    deployment.file.with_suffix(".lock").write_text(LOCK)
    blobs = tmp_path / "containerd" / "daemon" / CONTENT
    blobs.mkdir(parents=True)

    def put(value: dict[str, Any]) -> str:
        data = json.dumps(value).encode()
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return f"sha256:{digest}"

    for config, good in ((CONFIG, True), (MANIFEST, False)):
        inner = put({"config": {"digest": config}})
        index = put({"manifests": [{"digest": inner, "platform": {"os": "linux"}}]})
        for image_id in (inner, index):
            assert identity.config_digest(tmp_path, image_id) == config
            if good:
                check(deployment, attrs(Id=image_id), said, tmp_path)
            else:
                with pytest.raises(IntegrityError):
                    check(deployment, attrs(Id=image_id), said, tmp_path)
    assert identity.config_digest(tmp_path, CONFIG) is None


def test_a_build_on_the_classic_store_is_held_to_its_files_only(deployment, said):
    deployment.file.with_suffix(".lock").write_text(LOCK)
    classic = {"GraphDriver": {"Name": "overlay2"}}
    check(deployment, attrs(Id=CONFIG, **classic), said)
    assert said.pop() == "the image is the one that kit.lock records"
    for other in (attrs(**classic), attrs(Id=CONFIG, layers=[], **classic)):
        check(deployment, other, said)
        assert "kit image verify compares its files" in said.pop()
    with pytest.raises(IntegrityError):
        check(deployment, attrs(Id=CONFIG, label="6" * 64, **classic), said)


def test_a_lock_of_other_inputs_is_said_but_hinders_nobody(deployment, said):
    deployment.file.with_suffix(".lock").write_text(LOCK.replace(INPUT, "7" * 64))
    check(deployment, attrs(), said)
    assert len(said) == 1 and "is of other inputs than this image; kit lock" in said[0]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"image: 5\n",
        b"image: [\n",
        b"image:\n  identity: 3\n",
        b"image:\n  input: 5\n",
        b"image:\n  identity:\n    layers: abc\n",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_an_image_does_not_pass_because_its_record_is_damaged(deployment, said, data):
    lock, bundle = deployment.file.with_suffix(".lock"), deployment.folder.parent / "bundle.json"
    bundle.write_bytes(data)
    with pytest.raises(IntegrityError, match="does not tell which image"):
        check(deployment, attrs(), said)
    lock.write_bytes(data)
    with pytest.raises(UsageError, match="not a lock") as caught:
        check(deployment, attrs(), said)
    assert "git checkout" in str(caught.value.hint)
    now = Status("ready", None)
    assert "cannot be told" in next(_warnings(deployment, now, None))
    lock.unlink()
    lock.mkdir()
    with pytest.raises(MissingError, match="a folder"):
        check(deployment, attrs(), said)
    assert said == []


def test_an_installed_release_is_held_to_its_bundle(deployment, said):
    bundle = deployment.folder.parent / "bundle.json"
    bundle.write_text(json.dumps({"image": {"config": CONFIG, "layers": list(LAYERS)}}))
    assert identity.recorded(deployment) == Recorded(bundle, None, CONFIG, LAYERS)
    check(deployment, attrs(label="any"), said)
    assert said == ["the image is the one that bundle.json records"]
    classic = {"GraphDriver": {"Name": "overlay2"}}
    check(deployment, attrs(Id=CONFIG, **classic), said)
    with pytest.raises(IntegrityError, match=r"bundle\.json records"):
        check(deployment, attrs(**classic), said)
    with pytest.raises(IntegrityError) as caught:
        check(deployment, attrs(layers=[]), said)
    assert "install.sh" in str(caught.value.hint)
