"""What a watched start shows: plain lines, JSON events, the live screen; and what a session concludes."""

import io
import json
import re

from rich.console import Console

from benchmarks.replay.make_log import Start, make_log
from kit.watch.events import Events
from kit.watch.halfdead import missing
from kit.watch.lines import ranks
from kit.watch.live import screen
from kit.watch.plain import Plain
from kit.watch.processes import ProcessSample
from kit.watch.session import Frame, Session


def watched(*views: object, until: float = 1e9, step: float = 1.0, kind: Start | None = None) -> tuple[Session, Frame]:
    """Replay a start second by second, a tick after each."""
    session = Session(views, None, [], stall_timeout=900, stage_timeouts={})  # type: ignore[arg-type]
    lines = [(at, text) for at, text in make_log(kind or Start()) if at <= until]
    frame, number, now = session.tick(0.0), 0, 0.0
    while number < len(lines):
        now += step
        while number < len(lines) and lines[number][0] <= now:
            session.take((lines[number][1] + "\n").encode(), lines[number][0])
            number += 1
        frame = session.tick(now)
    return session, frame


def test_plain_lines_tell_each_stage_once_with_its_own_time() -> None:
    said: list[str] = []
    watched(Plain(said.append))
    stages = [match[1] for line in said if (match := re.fullmatch(r" *[\d.]+ s  (\S.*)", line))]
    assert stages == [
        "configuration", "process start", "communication", "weights", "drafter weights", "memory profile", "compile",
        "memory profile", "KV cache", "kernel warm-up", "graph capture", "API server", "serving",
    ]  # fmt: skip
    assert "   56.0 s  weights" in said
    assert " 2126.0 s  serving" in said
    assert any("KV cache of 185,344 tokens" in line for line in said)
    bars = [line for line in said if " of 64 shards" in line]
    assert len(bars) == 60  # one in half a minute
    assert "28.1 s each" in bars[0]


def test_a_fast_bar_is_told_in_tenths() -> None:
    said: list[str] = []
    watched(Plain(said.append), step=0.5, kind=Start(minutes=0.5))
    assert len([line for line in said if " of 64 shards" in line]) == 9


def test_events_are_json_lines_with_stage_figures_and_progress() -> None:
    out: list[str] = []
    watched(Events(out.append), until=200)
    events = [json.loads(line) for line in out]
    assert {e["schema"] for e in events} == {"kit.event/1"}
    assert [e["at"] for e in events] == sorted(e["at"] for e in events)
    load = [e for e in events if e["event"] == "stage" and e["stage"] == "load"]
    assert sorted(e["rank"] for e in load if e["process"]) == list(range(8))
    assert [e["at"] for e in load if e["process"] is None] == [56.0]
    progress = [e for e in events if e["event"] == "progress"]
    assert (progress[-1]["done"], progress[-1]["total"], progress[-1]["rank"]) == (4, 64, 0)
    assert [e["value"] for e in events if e["event"] == "figure" and e["name"] == "nccl"] == ["2.27.5"]


def test_the_screen_says_where_it_is_how_far_and_shows_no_control_characters() -> None:
    session, frame = watched(until=1000)
    session.take(b"(Worker_TP0 pid=200) \x1b]0;owned\x07 hello\x9b\n", 1001)
    frame = session.tick(1002)
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(screen("kimi", frame))
    text = console.export_text()
    assert "▶ weights" in text and "33 of 64 shards" in text and "✓ communication" in text
    assert "\x1b" not in text and "\x07" not in text and "\x9b" not in text


def shown(frame: Frame, width: int, failed: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(screen("kimi", frame, failed=failed))
    return console.export_text().splitlines()


def test_eighty_columns_hold_what_matters_of_a_long_load() -> None:
    _, frame = watched(until=1000)
    lines = shown(frame, 80)
    assert max(map(len, lines)) <= 80 and len(lines) <= 24
    assert " ▶ weights                15:33 min  ████░░░░ 33 of 64 shards, 14:30 min to go" in "\n".join(lines)
    assert lines[0].startswith("kimi  16:")


def test_a_narrow_terminal_cuts_lines_and_wraps_none() -> None:
    _, frame = watched(until=1000)
    assert len(shown(frame, 40)) == len(shown(frame, 200))


def test_the_last_screen_of_a_failed_start_says_so() -> None:
    _, frame = watched(kind=Start(crash_at=0.83))
    lines = shown(frame, 100, failed=True)
    assert lines[0].endswith("failed") and any("✕ weights" in line for line in lines)
    assert not any("▶" in line for line in lines)


def test_ranks_are_grouped_as_ranges() -> None:
    _, frame = watched(until=57)
    for process in frame.snapshot.processes:
        if process.rank in (2, 5):
            process.stage = "nccl"
    assert ranks(frame.snapshot) == ["ranks 0-1, 3-4, 6-7: weights", "ranks 2, 5: communication"]


def test_a_process_that_is_gone_is_named_after_its_grace() -> None:
    _, frame = watched(until=300)
    alive = [
        ProcessSample(p.pid + 5000, p.pid, "VLLM", "Z" if p.rank == 6 else "S", 1.0, 0, 0)
        for p in frame.snapshot.processes
        if p.pid is not None and p.rank != 3
    ]
    since: dict[int, float] = {}
    assert missing(frame.snapshot, alive, 300.0, since) == ()
    gone = missing(frame.snapshot, alive, 303.0, since)
    assert [(m.process.rank, m.seconds) for m in gone] == [(3, 3.0), (6, 3.0)]
    assert gone[0].name == "worker rank 3 (pid 221)"
    assert missing(frame.snapshot, None, 400.0, since) == ()


def test_a_process_that_comes_back_is_not_gone() -> None:
    _, frame = watched(until=300)
    everyone = [ProcessSample(1, p.pid, "VLLM", "S", 1.0, 0, 0) for p in frame.snapshot.processes if p.pid]
    since: dict[int, float] = {}
    missing(frame.snapshot, everyone[:-1], 300.0, since)
    missing(frame.snapshot, everyone, 301.0, since)
    assert missing(frame.snapshot, everyone[:-1], 303.5, since) == ()


def test_events_that_are_told_late_say_what_was_then() -> None:
    out: list[str] = []
    watched(Events(out.append), step=3000.0)
    told = [json.loads(line) for line in out]
    assert len([e for e in told if e["event"] == "stage" and e["stage"] == "load" and e["process"]]) == 8
    assert [e["done"] for e in told if e["event"] == "progress" and e["stage"] == "load"] == list(range(65))


def test_a_frame_holds_for_a_second_unless_the_log_says_something() -> None:
    session, _ = watched(until=100)
    first = session.tick(200.0)
    assert session.tick(200.9) is first
    session.take(b"(Worker_TP0 pid=200) hello\n", 200.95)
    told = session.tick(200.96)
    assert told is not first and told.snapshot.last_text == "hello"
    assert session.tick(202.0) is not told
