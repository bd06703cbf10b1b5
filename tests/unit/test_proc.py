"""Processes: what they said, how they ended, and that Ctrl-C takes their children with them."""

import os
import subprocess
import sys
import time

import pytest

from kit import proc
from kit.errors import MissingError


def test_output_status_and_environment() -> None:
    done = proc.run(["sh", "-c", 'echo "$X"; echo err >&2; exit 3'], check=False, env={"X": "a b"})
    assert (done.code, done.out, done.err) == (3, "a b\n", "err\n")


def test_failure_quotes_the_end_of_what_was_said() -> None:
    with pytest.raises(proc.ProcessFailed, match="ended with status 3") as caught:
        proc.run(["sh", "-c", "seq 100 >&2; exit 3"], hint="do this")
    assert caught.value.evidence[-1] == "100"
    assert caught.value.hint == "do this"


def test_a_missing_program_is_missing() -> None:
    with pytest.raises(MissingError, match="not installed"):
        proc.run(["/no/such/program"])


@pytest.mark.parametrize("start", [proc.run, lambda a, **k: proc.stream(a, print, **k)])
def test_what_keeps_a_program_from_starting_is_said(start, tmp_path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("no program at all\n")
    if not os.access(tool, os.X_OK):
        with pytest.raises(MissingError, match="may not be run by this user"):
            start([tool])
    tool.chmod(0o755)
    with pytest.raises(MissingError, match=r"cannot start .*tool.*Exec format error"):
        start([tool])
    with pytest.raises(MissingError, match=r"cannot start 'true' with .*gone: No such file"):
        start(["true"], cwd=tmp_path / "gone")


def test_lines_of_a_program_that_is_missing() -> None:
    with pytest.raises(MissingError, match="not installed"):
        next(proc.lines(["/no/such/program"], silence=lambda: 1.0))


def test_a_timeout_ends_the_whole_group() -> None:
    before = time.monotonic()
    with pytest.raises(proc.ProcessFailed, match="did not finish"):
        proc.run(["sh", "-c", "sleep 61.75 & wait"], timeout=0.3)
    assert time.monotonic() - before < 20
    assert "sleep 61.75" not in subprocess.run(["ps", "-ef"], capture_output=True, text=True).stdout


def test_stream_hands_over_lines_as_they_come() -> None:
    lines: list[str] = []
    proc.stream([sys.executable, "-c", "print('a'); import sys; print('b', file=sys.stderr)"], lines.append)
    assert sorted(lines) == ["a", "b"]


def test_a_missing_program_has_a_next_step() -> None:
    for program, hint in (("/no/such/program", "ls -l /no/such/program"), ("no-such-program", "mend PATH")):
        with pytest.raises(MissingError) as caught:
            proc.run([program])
        assert hint in str(caught.value.hint)
