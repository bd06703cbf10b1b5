"""Rendered files: equal to the golden ones, and every value comes through as itself or is refused."""

import ast
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
import yaml

from kit.config import Deployment, Kit, load
from kit.errors import KitError, UsageError
from kit.render import container_spec, quote, render
from kit.render.files import render_one, template_environment

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "data" / "golden"
CASES = {
    "kimi-k2-5": ("kit.yaml", ["server.api_key_file=secrets/key"]),
    "embedded": ("examples/embedded.yaml", []),
    "llama-8b": ("examples/llama-one-gpu.yaml", ["server.network=host", "gpus.access=runtime", "caches.volume=false"]),
}
IMAGE = "kit/vllm:golden"
NASTY = "a\"b'c $(touch /tmp/owned) `id` ${HOME} \\ %s %h {{7*7}} {% x %} é -- ; & | #"


def deployment(name: str) -> Deployment:
    """A shipped file as if it lay in /srv/kit, so that the paths in what is rendered are fixed."""
    file, sets = CASES[name]
    loaded = load(ROOT / file, sets, {})
    return Deployment(loaded.kit, Path("/srv/kit/kit.yaml"), loaded.sources)


def variant(**changes: object) -> Deployment:
    data = load(ROOT / "examples" / "embedded.yaml", [], {}).kit.model_dump(by_alias=True)
    for path, value in changes.items():
        section, key = path.split("__")
        data[section][key] = value
    return Deployment(Kit.model_validate(data), Path("/srv/kit/kit.yaml"), {})


@pytest.mark.parametrize("name", CASES)
def test_golden_files(name: str) -> None:
    files = {n: c for n, c in render(deployment(name), IMAGE).files.items() if n != "Dockerfile"}
    if os.environ.get("KIT_UPDATE_GOLDEN"):
        shutil.rmtree(GOLDEN / name, ignore_errors=True)
        for file, content in files.items():
            (GOLDEN / name / file).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name / file).write_bytes(content)
    golden = {str(p.relative_to(GOLDEN / name)): p.read_text() for p in (GOLDEN / name).rglob("*") if p.is_file()}
    assert {n: c.decode() for n, c in files.items()} == golden, "look at the difference, then KIT_UPDATE_GOLDEN=1"


@pytest.mark.parametrize("name", CASES)
def test_rendering_twice_is_byte_identical(name: str) -> None:
    assert render(deployment(name), IMAGE) == render(deployment(name), IMAGE)


@pytest.mark.parametrize("name", CASES)
def test_shell_scripts_pass_shellcheck(name: str, tmp_path: Path) -> None:
    render(deployment(name), IMAGE).write(tmp_path)
    done = subprocess.run(
        [Path(sys.executable).parent / "shellcheck", tmp_path / "launch.sh"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert os.access(tmp_path / "launch.sh", os.X_OK)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_the_unit_passes_systemd_analyze(tmp_path: Path) -> None:
    made = tmp_path / "a b%c"
    made.mkdir()
    odd = Deployment(deployment("embedded").kit, made / "kit.yaml", {})
    unit = tmp_path / "kit-embedded.service"
    unit.write_bytes(render(odd, IMAGE).files["kit.service"])
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if "kit-embedded" in line]
    assert not ours, done.stderr
    assert f'kit up -f "{str(made).replace("%", "%%")}/kit.yaml"' in unit.read_text()


def test_a_nasty_name_reaches_vllm_as_itself(tmp_path: Path) -> None:
    made = variant(model__served_name=NASTY, engine__env={"X": NASTY}, engine__args=["--chat-template", NASTY])
    render(made, IMAGE).write(tmp_path)
    fake = tmp_path / "bin" / "vllm"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nfor a in "$@"; do printf \'%s\\0\' "$a"; done\nprintf \'%s\\0\' "$X"\n')
    fake.chmod(0o755)
    done = subprocess.run(
        ["bash", tmp_path / "launch.sh"], env={"PATH": f"{fake.parent}:/usr/bin:/bin"}, capture_output=True, check=True
    )
    words = done.stdout.decode().split("\0")
    assert words[words.index("--served-model-name") + 1] == NASTY
    assert words[words.index("--chat-template") + 1] == NASTY
    assert words[-2] == NASTY
    assert not Path("/tmp/owned").exists()


def test_a_nasty_name_reaches_the_health_check_as_itself() -> None:
    tree = ast.parse(render(variant(model__served_name=NASTY), IMAGE).files["healthcheck.py"])
    names = [
        ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "SERVED_NAME"
    ]  # type: ignore[attr-defined]
    assert names == [NASTY]


def test_a_nasty_path_reaches_compose_as_itself() -> None:
    made = variant(
        model__reference=None, model__path="/m/" + NASTY.replace("/", "_"), speculative__drafter={"path": "/d"}
    )
    compose = yaml.safe_load(render(made, IMAGE).files["compose.yaml"])
    sources = [v["source"] for v in compose["services"]["vllm"]["volumes"]]
    assert ("/m/" + NASTY.replace("/", "_")).replace("$", "$$") in sources


@pytest.mark.parametrize("bad", ["a\nb", "a\x00b", "a\x1b[31m", "a\u2028b", "a\x85b"])
def test_control_characters_are_refused(bad: str) -> None:
    for filter_ in (quote.shell, quote.compose, quote.systemd, quote.systemd_path, quote.word):
        with pytest.raises(UsageError):
            filter_(bad)


def test_a_value_without_a_filter_fails_the_template() -> None:
    env = template_environment()
    env.loader = jinja2.DictLoader({"x": "{{ name }}", "y": "{{ nothing | shell }}", "z": "{{ name | shell }}"})
    with pytest.raises(KitError, match="without a quoting filter"):
        render_one(env, "x", {"name": "plain"})
    with pytest.raises(KitError, match="'nothing' is undefined"):
        render_one(env, "y", {"name": "plain"})
    assert render_one(env, "z", {"name": "a b"}) == b"'a b'"


def test_shell_quoting_agrees_with_a_shell() -> None:
    done = subprocess.run(["sh", "-c", f"printf %s {quote.shell(NASTY)}"], capture_output=True, text=True)
    assert done.stdout == NASTY
    assert shlex.split(quote.shell_words([NASTY, "b"])) == [NASTY, "b"]


def test_check_diff_and_write(tmp_path: Path) -> None:
    made = render(deployment("embedded"), IMAGE)
    assert {s for _, s in made.compare(tmp_path)} == {"missing"}
    assert sorted(made.write(tmp_path)) == sorted(made.files)
    assert list(made.compare(tmp_path)) == []
    assert made.write(tmp_path) == []
    (tmp_path / "launch.sh").write_text("changed\n")
    (tmp_path / "old.txt").write_text("")
    assert list(made.compare(tmp_path)) == [("launch.sh", "stale"), ("old.txt", "unexpected")]
    assert "-changed" in made.diff(tmp_path)
    assert made.write(tmp_path) == ["launch.sh"]


def test_the_container_is_hardened_and_bound_to_loopback() -> None:
    compose = yaml.safe_load(render(deployment("kimi-k2-5"), IMAGE).files["compose.yaml"])["services"]["vllm"]
    assert compose["read_only"] is True and compose["cap_drop"] == ["ALL"] and compose["user"] == "2000:2000"
    assert compose["security_opt"] == ["no-new-privileges:true"]
    assert compose["ports"][0]["host_ip"] == "127.0.0.1"
    assert compose["restart"] == "on-failure:2"
    assert compose["ulimits"]["memlock"] == {"soft": -1, "hard": -1}
    assert compose["devices"] == ["nvidia.com/gpu=all"]


def test_the_key_is_a_file_never_an_argument(tmp_path: Path) -> None:
    text = render(deployment("kimi-k2-5"), IMAGE).files["launch.sh"].decode()
    assert "--api-key" not in text
    assert 'VLLM_API_KEY=$(<"$api_key_file")' in text


def test_the_cache_belongs_to_image_and_drafter() -> None:
    def volume(image: str, drafter: str) -> str | None:
        return container_spec(variant(speculative__drafter={"reference": drafter}), image).cache_volume

    names = {volume("a", "full"), volume("b", "full"), volume("a", "aux")}
    assert len(names) == 3
    assert volume("a", "full") in names
