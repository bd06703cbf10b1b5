"""The answer as JSON and as one screen, and the verb as a person types it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kit.cli.diagnose import command
from kit.errors import MissingError, UsageError
from kit.logs import diagnose_lines, render_text, to_json
from tests.unit.logs.lines import API, BANNER, ENGINE, READY, SERVED, START_FAILED, W0, core_error, trace, worker_error

CRASH = [
    BANNER,
    ENGINE,
    *worker_error(W0, "ValueError: mine"),
    *core_error("RuntimeError: cancelled"),
    *trace(API, START_FAILED),
]
CONTRACT = {
    "schema": str, "verdict": str, "root_cause": dict, "chain": list, "runs": int, "lines": int, "evidence": list,
    "version": str, "notes": list,
}  # fmt: skip
ROOT = {"category", "process", "rank", "pid", "exception", "line", "stage", "rule", "confidence", "summary", "remedy"}


def log(tmp_path: Path, lines: list[str]) -> str:
    file = tmp_path / "vllm.log"
    file.write_text("".join(f"{line}\n" for line in lines))
    return str(file)


def test_the_json_keeps_its_contract() -> None:
    answer = json.loads(json.dumps(to_json(diagnose_lines(CRASH))))
    assert {key: type(value) for key, value in answer.items()} == CONTRACT
    assert answer["schema"] == "kit.diagnosis/1" and set(answer["root_cause"]) == ROOT
    assert answer["chain"][0] == {"process": "worker", "line": 7, "exception": "ValueError: mine"}
    assert 0 <= answer["root_cause"]["confidence"] <= 1
    assert to_json(diagnose_lines([BANNER, READY, SERVED]))["root_cause"] is None


def test_a_screen_says_what_where_and_what_to_do() -> None:
    text = render_text(diagnose_lines(CRASH), path="vllm.log")
    for said in ("failed", "worker rank 0 (pid 8), vllm.log:7", "ValueError: mine", "API server", "do:", "evidence:"):
        assert said in text
    assert len(text.splitlines()) <= 40
    assert "Nothing in this log says that the server failed." in render_text(diagnose_lines([BANNER, READY]))


def test_control_characters_of_a_log_are_shown_and_not_sent() -> None:
    evil = worker_error(W0, "ValueError: \x1b]0;owned\x07\x1b[2J\u202egnp.exe \x9b31m red\x08\x08")
    text = render_text(diagnose_lines([BANNER, ENGINE, *evil]), path="a\x1bb")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert "\\x9b31m" in text and "\\u202e" in text


@pytest.mark.parametrize(
    ("lines", "code"), [(CRASH, 4), ([BANNER, READY, SERVED], 0), ([BANNER, ENGINE, READY, SERVED, *CRASH[2:7]], 4)]
)
def test_the_exit_code_is_the_same_with_and_without_json(
    tmp_path: Path, lines: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = log(tmp_path, lines)
    assert command([file]) == code
    assert command([file, "--json"]) == code
    assert json.loads(capsys.readouterr().out.split("\n{", 1)[-1].join(["{", ""]))["lines"] == len(lines)


def test_a_run_can_be_chosen_and_all_can_be_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = log(tmp_path, [*CRASH, BANNER, ENGINE, READY, SERVED])
    assert (command([file]), command([file, "--run", "1"]), command([file, "--run", "2"])) == (0, 4, 0)
    capsys.readouterr()
    assert command([file, "--all-runs", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["all_runs"]
    assert [(run["verdict"], run["first_line"]) for run in runs] == [("failed", 1), ("healthy", len(CRASH) + 1)]
    with pytest.raises(UsageError, match="holds 2 runs, not 7"):
        command([file, "--run", "7"])


def test_several_files_are_one_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.log.1").write_text("\n".join(CRASH[:6]) + "\n")
    (tmp_path / "x.log").write_text("\n".join(CRASH[6:]) + "\n")
    assert command([str(tmp_path / "x.log"), str(tmp_path / "x.log.1"), "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["root_cause"]["line"] == 7


@pytest.mark.parametrize(
    ("args", "error"),
    [(["/no/such.log"], MissingError), (["--nope"], UsageError), (["x", "--container", "y"], UsageError),
     (["x", "--rules", "/no/rules.toml"], MissingError), (["--journal", "--flag"], UsageError)],
)  # fmt: skip
def test_wrong_usage_is_refused(args: list[str], error: type[Exception]) -> None:
    with pytest.raises(error):
        command(args)


@pytest.mark.skipif(shutil.which("journalctl") is None, reason="no journalctl here")
def test_a_unit_of_which_the_journal_holds_nothing_is_no_healthy_log() -> None:
    with pytest.raises(MissingError, match=r"of no-such-unit-of-ours"):
        command(["--journal", "no-such-unit-of-ours.service"])


def test_standard_input_through_a_real_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kit", "-q", "diagnose", "-", "--json"],
        input="\n".join(CRASH), capture_output=True, text=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (4, "")
    assert json.loads(done.stdout)["root_cause"]["exception"] == "ValueError: mine"
