"""`kit bundle` as people type it: output, exit codes, next commands."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from kit.bundle import acceptance
from kit.bundle.box import Machine
from kit.bundle.manifest import load as read_manifest
from kit.bundle.qualification import Qualification
from kit.bundle.releases import Pending, Releases
from kit.cli.main import main
from kit.cli.progress import byte_progress
from kit.render.container import name_in

from .conftest import bundle_json
from .test_contents import DOCTOR, SMOKE


def kit(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["bundle", *map(str, args)])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("KIT_TRUSTED_KEY", "KIT_SIGNING_KEY", "KIT_RELEASES", "KIT_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_verify(pack, key_files, capsys):
    path = pack(form="file")
    code, out, _ = kit(capsys, "verify", path, "--key", key_files / "kit.pub")
    assert code == 0 and out.startswith(f"{path.stem}: signed by SHA256:")
    code, out, _ = kit(capsys, "verify", path, "--key", key_files / "kit.pub", "--json")
    found = json.loads(out)
    assert (code, found["schema"], found["verdict"], found["release"]) == (0, "kit.bundle-verify/1", "pass", path.stem)
    code, out, _ = kit(capsys, "verify", path, "--hashes-only")
    assert code == 0 and "who packed it was not checked" in out


def test_verify_refuses(pack, key_files, capsys):
    path = pack()
    code, out, err = kit(capsys, "verify", path)
    assert (code, out) == (2, "") and "--hashes-only" in err
    (path / "deployment/kit.yaml").write_text("x")
    for json_too in ([], ["--json"]):
        code, out, err = kit(capsys, "verify", path, "--key", key_files / "kit.pub", *json_too)
        assert (code, out) == (6, "") and "deployment/kit.yaml: SHA-256 is" in err and "next:" in err
    code, _, err = kit(capsys, "verify", path.parent / "nothing", "--key", key_files / "kit.pub")
    assert code == 5 and "there is no bundle" in err


def test_pack_wants_a_key(capsys):
    code, _, err = kit(capsys, "pack")
    assert code == 2 and "openssl genpkey" in err
    code, _, err = kit(capsys, "pack", "--unsigned", "--chunk", "lots")
    assert code == 2 and "--chunk" in err


def release(root: Path, name: str, image) -> None:
    folder = root / "releases" / name
    folder.mkdir(parents=True)
    (folder / "bundle.json").write_bytes(bundle_json(image, name))
    noted = {"installed": "2026-11-29T10:00:00Z", "signed_by": "SHA256:abc"}
    (folder / "installed.json").write_text(json.dumps(noted))


def test_list(tmp_path, image, capsys):
    code, _, err = kit(capsys, "list")
    assert code == 2 and "--in" in err
    code, _, err = kit(capsys, "list", "--in", tmp_path)
    assert code == 5 and "no release was ever installed" in err
    releases = Releases(tmp_path)
    for name in ("a-1", "b-2", "c-3"):
        release(tmp_path, name, image)
        if name != "c-3":
            releases.make_current(name, remember=True)
    releases.begin(Pending("c-3", True))
    code, out, err = kit(capsys, "list", "--in", tmp_path)
    assert code == 0
    assert [line.split()[0] + " " + line[68:] for line in out.splitlines()] == [
        "a-1 previous",
        "b-2 current",
        "c-3 switch interrupted",
    ]
    assert "was interrupted" in err
    code, out, _ = kit(capsys, "list", "--in", tmp_path, "--json")
    found = json.loads(out)
    assert (code, found["current"], len(found["releases"])) == (0, "b-2", 3)
    assert found["releases"][0]["signed_by"] == "SHA256:abc"


def test_rollback_without_a_release(tmp_path, capsys):
    (tmp_path / "releases").mkdir()
    code, _, err = kit(capsys, "rollback", "--in", tmp_path)
    assert code == 2 and "no release is current" in err
    code, _, err = kit(capsys, "rollback", "--in", tmp_path, "--release", "x")
    assert code == 5 and "release x is not installed here" in err


def test_remove(tmp_path, image, capsys):
    releases = Releases(tmp_path)
    for name in ("a-1", "b-2"):
        release(tmp_path, name, image)
        releases.make_current(name, remember=True)
    for wrong in ([], ["a-1", "--keep", "1"], ["--keep", "0"]):
        assert kit(capsys, "remove", "--in", tmp_path, *wrong)[0] == 2
    code, _, err = kit(capsys, "remove", "--in", tmp_path, "a-1")
    assert code == 2 and "a rollback returns to" in err and "kit bundle list" in err
    code, _, err = kit(capsys, "remove", "--in", tmp_path, "c-3")
    assert code == 5 and "c-3 is not installed here" in err
    code, out, err = kit(capsys, "remove", "--in", tmp_path, "--keep", "1")
    assert (code, out) == (0, "") and "nothing to remove" in err
    code, out, _ = kit(capsys, "remove", "--in", tmp_path, "--keep", "1", "--json")
    assert json.loads(out) == {"schema": "kit.bundle-remove/1", "removed": [], "images": []}
    assert releases.installed() == ["a-1", "b-2"]


def test_the_acceptance_report(tmp_path, image):
    found = read_manifest(bundle_json(image, "embedded-0.32.0-0123456789ab"))
    here = Qualification(SMOKE | {"acceptance_rate": 0.75}, {"ready_s": 61.5}, DOCTOR)
    report = acceptance.report(found, "SHA256:abc", "2026-11-29T10:00:00Z", here, SMOKE)
    assert report["verdict"] == "pass"
    lines = acceptance.lines(report)
    assert lines[0] == "acceptance of embedded-0.32.0-0123456789ab: PASS"
    assert ["acceptance", "rate", "75.0%", "100.0%"] in [line.split() for line in lines]
    assert "  ready after      61.5 s" in lines
    for bad in (
        Qualification(SMOKE | {"verdict": "fail"}, None, DOCTOR),
        Qualification(None, None, DOCTOR),
        Qualification(SMOKE, None, {"verdict": "fail"}),
    ):
        assert acceptance.report(found, None, "", bad, None)["verdict"] == "fail"
        acceptance.lines(acceptance.report(found, None, "", bad, None))


@pytest.mark.parametrize(
    "name", ["./b-2", "b-2/", "../releases/b-2", ".", "..", "", "x" * 300, "\x1b[31m", "{0}/releases/b-2"]
)
def test_a_path_is_no_name_of_a_release(tmp_path, image, capsys, name):
    releases = Releases(tmp_path)
    for known in ("a-1", "b-2"):
        release(tmp_path, known, image)
    releases.make_current("b-2", remember=True)
    for verb in (["remove", name.format(tmp_path)], ["rollback", "--release", name.format(tmp_path)]):
        code, _, err = kit(capsys, verb[0], "--in", tmp_path, *verb[1:])
        assert code == 5 and "is not installed here" in err and "there are: a-1, b-2" in err
    assert releases.installed() == ["a-1", "b-2"] and releases.current == "b-2"


def test_a_damaged_folder_of_releases_is_still_listed(tmp_path, image, capsys):
    for name in ("a-1", "b-2", "c-3"):
        release(tmp_path, name, image)
    folder = tmp_path / "releases"
    (folder / "dangling").symlink_to("nowhere")
    (folder / "link").symlink_to("a-1")
    (folder / "\x1b[31m").mkdir()
    (folder / "\x1b[31m" / "bundle.json").write_bytes(bundle_json(image, "a-1"))
    (folder / "a-1" / "installed.json").write_text('{"installed": ["\\u001b[31m"]}')
    (folder / "b-2" / "installed.json").write_text("[" * 100_000)
    (folder / "c-3" / "previous").write_bytes(b"\xff")
    Releases(tmp_path).make_current("c-3", remember=False)
    code, out, _ = kit(capsys, "list", "--in", tmp_path)
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == ["a-1", "b-2", "c-3"]
    assert "\x1b" not in out
    (tmp_path / "pending.json").write_text("[" * 100_000)
    code, _, err = kit(capsys, "list", "--in", tmp_path)
    assert code == 2 and f"rm -r {tmp_path / 'pending.json'}" in err
    (tmp_path / "pending.json").unlink()
    (folder / "a-1" / "bundle.json").write_text("{")
    code, _, err = kit(capsys, "remove", "--in", tmp_path, "a-1")
    assert code == 6 and "release a-1: bundle.json" in err and str(folder / "a-1") in err


def test_only_the_engine_knows_whether_a_damaged_release_runs(tmp_path, image, monkeypatch):
    release(tmp_path, "a-1", image)
    machine = Machine(Releases(tmp_path), print, byte_progress)
    asked: list[str] = []
    found: list[SimpleNamespace | None] = [None]

    def find(client, name):
        asked.append(name)
        return found[0]

    monkeypatch.setattr("kit.bundle.box.find", find)
    machine.__dict__["engine"] = SimpleNamespace(client=lambda: SimpleNamespace(close=lambda: None))
    script = tmp_path / "releases" / "a-1" / "kit"
    for text in (None, "#!/bin/sh\nexit 127\n"):
        if text:
            script.write_text(text)
            script.chmod(0o755)
        for status, up in (("running", True), ("paused", True), ("exited", False), (None, False)):
            found[0] = SimpleNamespace(status=status) if status else None
            assert machine.is_up("a-1") is up
    assert set(asked) == {name_in("embedded", tmp_path.resolve() / "releases" / "a-1" / "deployment")}
