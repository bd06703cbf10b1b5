"""Bytes to lines, packed files, rotated files, very long logs."""

import gzip
import lzma
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import MissingError, UsageError
from kit.logs import diagnose_file, inputs, windows
from kit.logs.diagnose import read_chunks
from kit.logs.reading import LONGEST, Splitter
from kit.logs.rules import load

RULES = load()
BANNER = "(APIServer pid=1) INFO 01-02 03:04:00 [api_server.py:9] vLLM API server version 0.17.0\n"
ARGUMENTS = "(APIServer pid=1) INFO 01-02 03:04:00 [utils.py:9] non-default args: {'model': '/m'}\n"
ENGINE = "(EngineCore pid=7) INFO 01-02 03:04:10 [core.py:77] Initializing a V1 LLM engine (v0.17.0) with config: x\n"
READY = "(APIServer pid=1) INFO:     Application startup complete.\n"
SERVED = '(APIServer pid=1) INFO:     10.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK\n'
LOW = (
    "(APIServer pid=1) INFO 01-02 03:05:00 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 1.00, "
    "Accepted: 0 tokens, Drafted: 2000 tokens, Per-position acceptance rate: 0.000, 0.000\n"
)
CRASH = """\
(EngineCore pid=7) ERROR 01-02 03:05:00 [core.py:9] EngineCore encountered a fatal error.
(EngineCore pid=7) ERROR 01-02 03:05:00 [core.py:9] Traceback (most recent call last):
(EngineCore pid=7) ERROR 01-02 03:05:00 [core.py:9]   File "x.py", line 1, in f
(EngineCore pid=7) ERROR 01-02 03:05:00 [core.py:9] KeyError: 'late'
"""
RUN = BANNER + ARGUMENTS + ENGINE + READY


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 17))
def test_lines_are_those_of_split_at_newlines_whatever_the_chunks(parts: list[bytes], size: int) -> None:
    data = b"\n".join(parts)
    splitter = Splitter()
    lines = [x for i in range(0, len(data), size) for x in splitter.feed(data[i : i + size])] + list(splitter.finish())
    want = data.split(b"\n")
    if want[-1] == b"":
        want.pop()
    assert lines == [(n, text.decode("utf-8", "replace")) for n, text in enumerate(want, start=1)]


def test_a_line_of_megabytes_keeps_its_ends_and_little_else() -> None:
    splitter = Splitter()
    lines = []
    for chunk in (b"head ", *[b"x" * 1_000_000] * 5, b" tail\nnext\n"):
        lines += list(splitter.feed(chunk))
    (_, text), (number, after) = lines
    assert text.startswith("head x") and text.endswith("x tail") and len(text) <= LONGEST
    assert (number, after) == (2, "next")


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, lzma.compress, bytes])
def test_packed_files_are_read_and_a_cut_one_up_to_its_cut(tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    log = tmp_path / "log"
    data = pack((RUN + CRASH).encode())
    log.write_bytes(data)
    found = diagnose_file(log, rules=RULES)
    assert found.root_cause is not None and (found.root_cause.exception, found.root_cause.line) == (
        "KeyError: 'late'",
        8,
    )
    log.write_bytes(data[: len(data) - 4])
    assert diagnose_file(log, rules=RULES).lines <= 8


def test_rotated_files_are_read_oldest_first() -> None:
    names = [Path("a/x.log"), Path("a/x.log.1"), Path("a/x.log.10.gz"), Path("a/x.log.2.gz")]
    assert [p.name for p in inputs.in_order(names)] == ["x.log.10.gz", "x.log.2.gz", "x.log.1", "x.log"]
    other = [Path("b.log"), Path("a.log")]
    assert inputs.in_order(other) == other


def test_what_cannot_be_read_is_refused_with_a_next_step(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="there is no"):
        inputs.check(tmp_path / "none")
    with pytest.raises(UsageError, match="is a folder"):
        inputs.check(tmp_path)


class TestLongLogs:
    """The same answers as reading every line, from a part of the file."""

    @pytest.fixture(autouse=True)
    def small_windows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, size in {"SMALL": 20_000, "_BLOCK": 4096, "_TAIL": 8192, "_HEAD": 4096, "_BEFORE": 512}.items():
            monkeypatch.setattr(windows, name, size)

    @staticmethod
    def same(tmp_path: Path, text: str) -> tuple[str, int | None, int]:
        log = tmp_path / "long.log"
        log.write_bytes(text.encode())
        assert log.stat().st_size > windows.SMALL
        short = diagnose_file(log, rules=RULES)
        whole = read_chunks(inputs.chunks(log))
        assert (short.runs, short.lines) == (whole.run_count, whole.lines)
        from kit.logs.diagnose import conclude

        long = conclude(whole, RULES)
        assert short.verdict == long.verdict
        assert (short.root_cause and short.root_cause.line) == (long.root_cause and long.root_cause.line)
        return short.verdict, short.root_cause.line if short.root_cause else None, short.runs

    def test_a_crash_at_the_end(self, tmp_path: Path) -> None:
        assert self.same(tmp_path, RUN + SERVED * 3000 + CRASH) == ("failed", 3008, 1)

    def test_a_last_line_without_its_newline(self, tmp_path: Path) -> None:
        assert self.same(tmp_path, RUN + SERVED * 3000 + CRASH.rstrip("\n"))[0] == "failed"

    def test_a_healthy_server(self, tmp_path: Path) -> None:
        assert self.same(tmp_path, RUN + SERVED * 5000) == ("healthy", None, 1)

    def test_a_crash_before_much_noise_is_looked_for_further_back(self, tmp_path: Path) -> None:
        noise = (
            "(APIServer pid=1) ERROR 01-02 03:06:00 [core_client.py:9] vllm.v1.engine.exceptions.EngineDeadError: x\n"
        )
        assert self.same(tmp_path, RUN + SERVED * 500 + CRASH + noise * 2000) == ("failed", 508, 1)

    def test_a_crash_in_an_earlier_run(self, tmp_path: Path) -> None:
        assert self.same(tmp_path, RUN + SERVED * 900 + CRASH + RUN + SERVED * 900) == ("healthy", None, 2)

    def test_low_acceptance_in_the_middle_of_the_log(self, tmp_path: Path) -> None:
        verdict, line, _ = self.same(tmp_path, RUN + (SERVED * 20 + LOW) * 400)
        assert (verdict, line) == ("degraded", 25)

    def test_one_huge_line(self, tmp_path: Path) -> None:
        assert self.same(tmp_path, RUN + "x" * 300_000 + "\n" + CRASH)[0] == "failed"
        assert self.same(tmp_path, RUN + CRASH + "x" * 300_000)[0] == "failed"
