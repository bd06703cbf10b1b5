"""Mutated real logs: never a crash, and the answer survives what does not change the facts."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.labelled_logs import DATA, Labelled, logs
from kit.logs import Follower, diagnose_lines, render_text
from kit.logs.prefixes import Names
from kit.logs.reader import Reader
from kit.logs.reading import Splitter
from kit.logs.rules import load

RULES = load()
LABELLED = logs(sorted(f.parent for f in DATA.glob("*/truth.jsonl")))
TEXTS = {log.path: log.path.read_bytes() for log in LABELLED}
SLOW = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def answer(data: bytes) -> None:
    splitter = Splitter()
    lines = [text for _, text in [*splitter.feed(data), *splitter.finish()]]
    found = diagnose_lines(lines, rules=RULES)
    assert found.lines == len(lines)
    assert found.verdict in ("failed", "degraded", "healthy")
    assert (found.root_cause is None) == (found.verdict == "healthy")
    if found.root_cause is not None and found.root_cause.line is not None:
        assert 1 <= found.root_cause.line <= len(lines)
    assert render_text(found)


@SLOW
@given(st.sampled_from(LABELLED), st.floats(0, 1), st.floats(0, 1))
def test_cut_at_any_byte_at_either_end(log: Labelled, start: float, end: float) -> None:
    data = TEXTS[log.path]
    first, last = sorted((int(start * len(data)), int(end * len(data))))
    answer(data[first:last])


@SLOW
@given(st.sampled_from(LABELLED), st.data())
def test_bytes_changed_lines_dropped_doubled_or_moved(log: Labelled, draw: st.DataObject) -> None:
    lines = TEXTS[log.path].split(b"\n")
    for _ in range(draw.draw(st.integers(1, 8))):
        at = draw.draw(st.integers(0, len(lines) - 1))
        match draw.draw(st.integers(0, 4)):
            case 0:
                del lines[at : at + draw.draw(st.integers(1, 20))]
                lines = lines or [b""]
            case 1:
                lines.insert(at, draw.draw(st.binary(max_size=60)))
            case 2:
                lines[at] = lines[at] * 2
            case 3:
                lines[at] = lines[at].replace(b" ", draw.draw(st.binary(min_size=1, max_size=3)))
            case _:
                lines.insert(draw.draw(st.integers(0, len(lines) - 1)), lines[at])
    answer(b"\n".join(lines))


@SLOW
@given(st.lists(st.text(alphabet="(){}[]|:+-=> \tTracebackErrorpid=0123\x1b\r\n", max_size=80), max_size=40))
def test_anything_at_all(lines: list[str]) -> None:
    answer("\n".join(lines).encode())


PREFIXED = [
    log
    for log in LABELLED
    if not log.healthy and log.truth.get("root_line") and b"pid=" in TEXTS[log.path] and b"Worker" in TEXTS[log.path]
]


@SLOW
@given(st.sampled_from(PREFIXED), st.data())
def test_the_verdict_survives_another_interleaving(log: Labelled, draw: st.DataObject) -> None:
    """Lines of the processes, which run side by side, change places; each process keeps its own order."""
    lines = TEXTS[log.path].decode("utf-8", "replace").split("\n")
    names = Names()
    owners = [names.read(n, line)[0].owner for n, line in enumerate(lines, start=1)]
    sure = [owner is not None and owner.pid is not None for owner in owners]
    for _ in range(draw.draw(st.integers(1, 60))):
        at = draw.draw(st.integers(0, len(lines) - 2))
        if sure[at] and sure[at + 1] and owners[at] != owners[at + 1]:
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
            owners[at], owners[at + 1] = owners[at + 1], owners[at]
    before = diagnose_lines(TEXTS[log.path].decode("utf-8", "replace").split("\n"), rules=RULES)
    after = diagnose_lines(lines, rules=RULES)
    assert before.root_cause is not None and after.root_cause is not None
    assert (after.verdict, after.root_cause.category, after.root_cause.process) == (
        before.verdict, before.root_cause.category, before.root_cause.process
    )  # fmt: skip


@settings(max_examples=25)
@given(st.sampled_from(LABELLED), st.integers(1, 5000))
def test_a_follower_hears_the_same_as_a_reader(log: Labelled, size: int) -> None:
    data = TEXTS[log.path]
    follower = Follower(rules=RULES)
    for at in range(0, len(data), size):
        follower.feed(data[at : at + size])
    reader, splitter = Reader(), Splitter()
    for number, text in [*splitter.feed(data), *splitter.finish()]:
        reader.feed(number, text)
    assert follower.stage == reader.run.stage or not data.endswith(b"\n")
    assert Path(log.path).exists()
