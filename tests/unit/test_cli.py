"""The command line as a person meets it, through real processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.cli import out
from kit.cli.main import main
from kit.cli.out import clean

ROOT = Path(__file__).parents[2]


def kit(*args: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    import os

    environment = {k: v for k, v in os.environ.items() if not k.startswith("KIT_")} | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "kit", *args], cwd=cwd, env=environment | (env or {}), capture_output=True, text=True
    )


def test_help_lists_every_verb_without_any_engine() -> None:
    done = kit("--help", env={"DOCKER_HOST": "unix:///nowhere"})
    assert done.returncode == 0
    for verb in ("config", "render", "up", "down", "status", "smoke"):
        assert f" {verb} " in done.stdout


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["nope"], 2, "No such command 'nope'"),
        (["confg"], 2, "Did you mean 'config'"),
        (["up", "--no-such"], 2, "--no-such"),
        (["config", "check", "-f", "/no/such.yaml"], 5, "there is no /no/such.yaml"),
        (["config", "check", "--set", "server.port=99999"], 2, "server.port"),
    ],
)
def test_wrong_usage_says_what_and_what_next(args: list[str], code: int, said: str) -> None:
    done = kit(*args)
    assert done.returncode == code
    assert said in done.stderr
    assert "next:" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_quiet_and_verbose_may_stand_last() -> None:
    assert kit("config", "check", "-q").stderr == ""
    assert kit("config", "check", "-v").returncode == 0


def test_show_says_where_each_value_came_from() -> None:
    done = kit("config", "show", "--json", "--set", "server.port=9000", env={"KIT_LIMITS_RESTARTS": "1"})
    rows = {row["key"]: (row["value"], row["source"]) for row in json.loads(done.stdout)["settings"]}
    assert rows["server.port"] == (9000, "--set")
    assert rows["limits.restarts"] == (1, "KIT_LIMITS_RESTARTS")
    assert rows["gpus.count"][0] == 8 and rows["gpus.count"][1].startswith("kit.yaml:")
    assert rows["limits.pids"] == (16384, "default")


def test_a_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m kit config schema | head -1", shell=True, cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""


def test_control_characters_are_shown_not_sent() -> None:
    assert clean("a\x1b[31mb\x07\u202ec\x9b") == "a\\x1b[31mb\\x07\\u202ec\\x9b"
    assert clean("tab\tkept") == "tab\tkept"


def test_results_that_quote_others_are_cleaned(capsys: pytest.CaptureFixture[str]) -> None:
    out.data("label\ta=\x1b[31m\x9b\nnext")
    out.data("\x1b[31mred\x1b[0m", coloured=True)
    assert capsys.readouterr().out == "label\ta=\\x1b[31m\\x9b\nnext\n\x1b[31mred\x1b[0m\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NotADirectoryError(20, "Not a directory", "/a/b"), ["/a/b: Not a directory", "ls -ld /a/b"]),
        (OSError(40, "Too many levels of symbolic links", "/a"), ["/a: Too many levels", "ls -ld /a"]),
        (OSError(28, "No space left on device"), ["no space left", "df -h"]),
    ],
)
def test_what_the_system_refuses_is_no_fault_of_the_kit(error, said, monkeypatch, capsys) -> None:
    def verb(args: list[str]) -> None:
        raise error

    monkeypatch.setattr("kit.cli.main._run", verb)
    with pytest.raises(SystemExit) as ended:
        main(["status"])
    told = capsys.readouterr().err
    assert ended.value.code == 5 and all(text in told for text in said)
