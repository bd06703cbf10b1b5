"""What gets into a bundle, and what must not: secrets, names of the packing machine, values from elsewhere."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from kit.bundle import contents, handover, qualification, wheels
from kit.bundle.qualification import Qualification
from kit.config import load
from kit.errors import EXIT_GOOD, FATAL_CLASSES, GateError, UsageError

from .conftest import bundle_json

KIT_YAML = """\
schema: kit/1
name: embedded
engine: {{vllm: 0.32.0, device: cpu, existing: "kit/x:1"{engine}}}
model: {{reference: kimi-k2.5, served_name: "tiny | *kimi*"}}
speculative: {{drafter: {{reference: aux}}}}
{more}
"""
SMOKE = {
    "verdict": "pass",
    "requests": 3,
    "num_speculative_tokens": 5,
    "num_accepted_tokens": 255,
    "num_draft_tokens": 255,
    "acceptance_rate": 1.0,
    "mean_acceptance_length": 6.0,
    "per_position": [1.0] * 5,
    "ttft_s": 0.0456,
    "tokens_per_s": 342.04,
    "gates": [{"name": "text", "want": "a|b", "found": "<b>", "status": "pass"}],
}
DOCTOR = {
    "verdict": "pass",
    "checks": [
        {"id": "host.disk", "title": "room", "status": "pass", "found": "33 GB at /home/someone/kit"},
        {"id": "gpu.x", "title": "skipped", "status": "skip", "found": "no GPU"},
    ],
}


def deployment(folder: Path, engine: str = "", more: str = "", **environ: str):
    (folder / "kit.yaml").write_text(KIT_YAML.format(engine=engine, more=more))
    return load(folder / "kit.yaml", [], environ)


def gather(found, shown=Qualification(None, None, None), allowed=(), monkeypatch=None):  # noqa: B008
    return contents.gather(
        found, "kit/x:1", shown, {"lock/kit.lock": b"x\n"}, pythons=[], kept=Path("/x"), allowed=allowed, say=print
    )


@pytest.fixture(autouse=True)
def no_wheels(monkeypatch):
    """Nothing is fetched and no wheel is built here."""
    monkeypatch.setattr(wheels, "collect", lambda *args: {"kit/vllm_kit-0.1.0-py3-none-any.whl": b"wheel"})


def test_what_is_inside(tmp_path):
    (tmp_path / "ask").mkdir()
    (tmp_path / "ask/prompts.yaml").write_text("- {text: hello}\n")
    found = gather(deployment(tmp_path, more="smoke: {prompts: ask/prompts.yaml}"))
    inside = {name.partition("/")[0] for name in found.files}
    assert inside == {"deployment", "rendered", "patches", "lock", "docs", "kit", "install.sh", "verify.sh"}
    assert found.files["deployment/kit.yaml"] == (tmp_path / "kit.yaml").read_bytes()
    assert found.files["deployment/ask/prompts.yaml"] == b"- {text: hello}\n"
    assert b"/opt/kit/embedded/current/deployment" in found.files["rendered/kit.service"]
    assert json.loads(found.files["patches/series.json"])["patches"] == []


def test_two_folders_give_the_same(tmp_path):
    both = []
    for name in ("one", "two/deeper"):
        (tmp_path / name).mkdir(parents=True)
        both.append(gather(deployment(tmp_path / name)))
    assert both[0] == both[1]


def test_values_from_elsewhere_are_refused(tmp_path):
    with pytest.raises(UsageError, match="as it is; these values") as caught:
        gather(deployment(tmp_path, KIT_SERVER_PORT="9000"))
    assert caught.value.evidence == ["server.port from KIT_SERVER_PORT"]


def test_the_api_key_does_not_travel(tmp_path):
    (tmp_path / "key").write_text("sesame-open-4711\n")
    found = gather(deployment(tmp_path, more="server: {api_key_file: key}"))
    assert not [name for name, data in found.files.items() if b"sesame" in data]
    (value,) = [v for v in found.site if v.key == "server.api_key_file"]
    assert (value.variable, value.needed) == ("KIT_SERVER_API_KEY_FILE", True)
    (tmp_path / "prompts.yaml").write_text("- {text: the key is sesame-open-4711}\n")
    with pytest.raises(GateError) as caught:
        gather(deployment(tmp_path, more="server: {api_key_file: key}\nsmoke: {prompts: prompts.yaml}"))
    assert caught.value.evidence == ["deployment/prompts.yaml:1: known-secret"]


def test_paths_and_names_of_this_machine_do_not_travel(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setattr(socket, "gethostname", lambda: "buildbox7.example.org")
    with pytest.raises(GateError) as caught:
        gather(deployment(tmp_path, more='mounts: [{source: "/home/someone/models", target: /m}]'))
    assert "deployment/kit.yaml:6: home-folder" in caught.value.evidence
    assert any(line.startswith("rendered/compose.yaml:") for line in caught.value.evidence)
    found = deployment(tmp_path, ', env: {WHERE: "rack 3 of buildbox7"}')
    with pytest.raises(GateError) as caught:
        gather(found)
    assert "deployment/kit.yaml:3: host-name" in caught.value.evidence
    assert "buildbox7" not in str(caught.value.evidence)
    gather(found, allowed=["host-name"])


@pytest.mark.parametrize(
    ("engine", "rule"),
    [
        (', args: ["--hf-token", "abcdefgh"]', "option-secret"),
        (', env: {PROXY: "http://me:sesame@proxy.example:3128"}', "url-password"),
        (', env: {NOTE: "hf_AbCdEfGhIjKlMnOpQrSt"}', "known-token"),
        (', env: {WHERE: "/home/alice/cache"}', "home"),
    ],
)
def test_secrets_in_kit_yaml_are_refused(tmp_path, engine, rule):
    with pytest.raises(GateError, match="would tell secrets") as caught:
        gather(deployment(tmp_path, engine))
    assert f"deployment/kit.yaml:3: {rule}" in caught.value.evidence


def test_reports_are_cleaned(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "buildbox7")
    doctor = {"checks": [{"found": f"33 GB at {tmp_path}/.kit of buildbox7, key hf_AbCdEfGhIjKlMnOpQrSt"}]}
    shown = Qualification(SMOKE, {"image": "kit/x:1"}, doctor)
    clean = shown.cleaned(contents.machine_rules(deployment(tmp_path)))
    assert clean.doctor["checks"][0]["found"] == "33 GB at [folder]/.kit of [host-1], key [secret]"
    assert (clean.smoke, clean.run) == (shown.smoke, shown.run)
    moved = Qualification(SMOKE, None, {"checks": [{"found": "33 GB at /data/elsewhere/.kit/embedded (ext4)"}]})
    clean = moved.cleaned(contents.machine_rules(deployment(tmp_path)))
    assert clean.doctor["checks"][0]["found"] == "33 GB at [folder]/.kit/embedded (ext4)"


def test_a_lock_may_name_a_package_like_a_person(tmp_path, monkeypatch):
    monkeypatch.setenv("USER", "numpy")
    found = deployment(tmp_path)
    contents.refuse_leaks({"lock/kit.lock": b"numpy: 1\n"}, found, [])
    with pytest.raises(GateError):
        contents.refuse_leaks({"reports/run.json": b"by numpy\n"}, found, [])


def test_mounts_and_prompts_from_other_places(tmp_path):
    with pytest.raises(UsageError, match="mounts relative"):
        gather(deployment(tmp_path, more="mounts: [{source: data, target: /m}]"))
    for path in ("/etc/prompts.yaml", "../prompts.yaml"):
        with pytest.raises(UsageError, match="outside the folder"):
            gather(deployment(tmp_path, more=f"smoke: {{prompts: {path}}}"))


def newest_in(folder: Path, **reports: object) -> Qualification:
    for name, value in reports.items():
        path = folder / name.replace("__", "/")
        path = path.with_name(path.name + ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    return qualification.newest(folder)


def test_the_newest_smoke_test_counts(tmp_path):
    found = newest_in(
        tmp_path,
        runs__20261101T000000Z__run={"image": "kit/x:1", "ready_s": 1},
        runs__20261101T000000Z__smoke={"verdict": "fail"},
        runs__20261102T000000Z__smoke=SMOKE,  # kit smoke: a run without a start of its own
        runs__20261103T000000Z__run={"image": "kit/y:1"},  # a start that was never tested
        doctor__doctor=DOCTOR,
    )
    assert (found.smoke, found.image, found.doctor) == (SMOKE, "kit/x:1", DOCTOR)
    assert found.why_not("kit/x:1") is None
    qualification.demand(found, "kit/x:1")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (Qualification(None, None, None), "no smoke report"),
        (Qualification({"verdict": "fail"}, {"image": "kit/x:1"}, DOCTOR), "smoke test failed"),
        (Qualification(SMOKE, {"image": "kit/other:1"}, DOCTOR), "was of image kit/other:1"),
        (Qualification(SMOKE, None, DOCTOR), "was of image unknown"),
        (Qualification(SMOKE, {"image": "kit/x:1"}, None), "no doctor's report"),
        (Qualification(SMOKE, {"image": "kit/x:1"}, {"verdict": "fail"}), "verdict is fail"),
    ],
)
def test_what_does_not_qualify(found, why):
    with pytest.raises(GateError, match=why):
        qualification.demand(found, "kit/x:1")


def test_the_handover_document(tmp_path, image):
    from kit.bundle.manifest import load as read_manifest

    found = deployment(tmp_path)
    described = read_manifest(bundle_json(image, "embedded-0.32.0-0123456789ab"))
    shown = Qualification(SMOKE, {"image": "kit/x:1", "ready_s": 65.2}, DOCTOR)
    series = json.dumps({"patches": [{"id": "a-patch", "title": "Mends <it> | now"}]}).encode()
    page = handover.document(described, found, shown, {"patches/series.json": series}).decode()
    for wanted in (
        "# embedded: handover",
        "tiny \\| \\*kimi\\* (reference model kimi-k2.5)",
        "`sha256:" + image.image.config_digest[7:],
        "- `a-patch`: Mends \\<it\\> \\| now",
        "This very image passed",
        "| mean acceptance length | 6.00 |",
        "| time to first token | 46 ms |",
        "| from start to ready | 65.2 s |",
        "| text | a\\|b | \\<b\\> | pass |",
        "| room | 33 GB at /home/someone/kit | pass |",
        "openssl pkeyutl -verify -pubin -inkey kit.pub -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig",
        "/opt/kit/embedded/kit bundle rollback",
        *(f"| {kind.exit_code} | {kind.meaning} |" for kind in FATAL_CLASSES if "_" not in kind.meaning),
        f"| {EXIT_GOOD} | all is well |",
    ):
        assert wanted in page
    assert "no GPU" not in page  # skipped checks are left out
    assert page == handover.document(described, found, shown, {"patches/series.json": series}).decode()


def test_the_handover_of_an_unqualified_bundle(tmp_path, image):
    from kit.bundle.manifest import load as read_manifest

    text = bundle_json(image, "embedded-0.32.0-0123456789ab").replace(b'"qualified": true', b'"qualified": false')
    nothing = Qualification(None, None, None)
    page = handover.document(read_manifest(text), deployment(tmp_path), nothing, {}).decode()
    assert "packed without a passed qualification" in page and "This vLLM is unpatched." in page


LOCK = """\
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via vllm-kit
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:{b}
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:{a}
idna==3.20 \\
    --hash=sha256:{a}
""".format(a="a" * 64, b="b" * 64)


def test_requirements_for_each_python():
    lock = wheels.read_lock(LOCK)
    one = f"idna==3.20 --hash=sha256:{'a' * 64}\n"
    assert wheels.needed(lock, "3.11") == one + f"numpy==2.4.6 --hash=sha256:{'a' * 64} --hash=sha256:{'b' * 64}\n"
    assert wheels.needed(lock, "3.13") == one + f"numpy==2.5.5 --hash=sha256:{'b' * 64}\n"
    with pytest.raises(UsageError):
        wheels.read_lock("numpy==2.4.6\n")


def test_the_kits_own_lock_is_read_whole():
    text = (wheels.project() / "requirements.lock").read_text()
    assert len(wheels.read_lock(text)) == sum("==" in line for line in text.splitlines())
    assert "pip==" in wheels.needed(wheels.read_lock(text), "3.12")
