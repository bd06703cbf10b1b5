"""The report: complete, self-contained, safe against whatever a log holds."""

import hashlib
import json
import re
from base64 import b64encode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.replay.make_log import Start
from kit.report.charts import curves, positions
from kit.report.collect import of_log
from kit.report.inputs import SmokeIn, StagesIn, read, read_resources
from kit.report.memory import rows
from kit.report.page import page
from kit.report.timeline import LABEL, WIDTH, timeline
from kit.watch.history import former
from tests.unit.report.sample import HOSTILE, contents, smoke, stages

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Checked(HTMLParser):
    """Collects the tags and texts of a page and fails where it is not well nested."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(html: str) -> Checked:
    checked = Checked()
    checked.feed(html)
    checked.close()
    assert checked.open == []
    return checked


def test_it_says_all_that_is_known() -> None:
    found = parsed(page(contents())).text
    for said in (
        "What happened", "worker rank 3 (pid 221), line 96 of the log", "Stages of the start", "weights read in 1800 s",
        "KV cache of 185,344 tokens", "29 of 470 draft tokens in 94 drafts (6.2%)", "21.2%", "45.0%", "100.0%",
        "-17.8 %", "8 GPUs, driver 580.95.05, CUDA up to 13.0", "Gen5 x16", "NODE", "ACS redirects", "gpu.acs",
        "The engine failed",
    ):  # fmt: skip
        assert said in found, said


@pytest.mark.parametrize("text", [HOSTILE, "\ud800", "]]>", "<!--", "&lt;b&gt;"])
def test_nothing_from_outside_becomes_markup_or_control(text: str) -> None:
    html = page(contents(text))
    plain = parsed(page(contents("-"))).tags
    assert [tag for tag, _ in parsed(html).tags] == [tag for tag, _ in plain]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", html)
    html.encode("utf-8")


@settings(max_examples=30)
@given(st.text(max_size=60))
def test_no_text_changes_the_structure(text: str) -> None:
    base = replace(contents("-"), samples=(), stages=None, gpus=None)
    tags = [tag for tag, _ in parsed(page(base)).tags]
    changed = replace(base, name=text, log=text, notes=(text,), facts=((text, text),), quoted=())
    wanted = [tag for tag, _ in parsed(page(replace(base, quoted=(), notes=("-",), facts=(("-", "-"),)))).tags]
    assert [tag for tag, _ in parsed(page(changed)).tags] == wanted
    assert tags


def test_it_needs_no_script_and_nothing_from_outside_and_forbids_both() -> None:
    found = parsed(page(contents()))
    names = {tag for tag, _ in found.tags}
    assert not names & {"script", "img", "link", "iframe", "object", "embed", "form", "base", "a", "image", "use"}
    for _, attributes in found.tags:
        assert not {"style", "src", "href", "srcset", "data", "action"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
    policy = next(a["content"] for t, a in found.tags if t == "meta" and a.get("http-equiv"))
    style = (Path(__file__).parents[3] / "kit" / "report" / "style.css").read_text()
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in style and "@import" not in style


def test_scrolling_parts_can_be_reached_and_have_names_and_tables_have_headers() -> None:
    tags = parsed(page(contents())).tags
    regions = [a for _, a in tags if a.get("class") in ("scroll", "log")]
    assert regions and all(a.get("tabindex") == "0" and a.get("aria-label") for a in regions)
    assert all(a.get("scope") for t, a in tags if t == "th")
    assert next(a for t, a in tags if t == "html")["lang"] == "en"
    labels = {a["aria-labelledby"] for t, a in tags if t == "section"}
    assert labels <= {a.get("id") for _, a in tags}


def test_an_empty_report_is_a_page_too() -> None:
    bare = replace(
        contents(), stages=None, diagnosis=None, quoted=(), smoke=None, doctor=None, gpus=None, findings=(), memory=(),
        samples=(), facts=(), notes=(),
    )  # fmt: skip
    assert "Nothing in this log says that the server failed." in parsed(page(bare)).text


def test_the_timeline_holds_the_times_of_the_log() -> None:
    drawn = timeline(stages())
    assert drawn is not None
    assert [row.label for row in drawn.rows[:4]] == ["whole start", "API server", "engine core", "worker 0"]
    load = next(bar for bar in drawn.rows[0].bars if bar.stage == "load")
    per_second = (WIDTH - LABEL - 12) / 2126
    assert load.x == pytest.approx(LABEL + 56 * per_second, abs=0.1)
    assert load.width == pytest.approx(1806 * per_second, abs=0.1)
    assert load.told == "whole start: weights, 30:06 min, from 56 s"
    assert drawn.mark is not None and drawn.mark[1:] == ("ready after 35:26 min", True)
    assert all(bar.x >= LABEL and bar.x + bar.width <= WIDTH for row in drawn.rows for bar in row.bars)


def test_the_process_that_failed_first_is_marked() -> None:
    root = contents().diagnosis
    assert root is not None
    drawn = timeline(stages(Start(crash_at=0.83)), root.root_cause)
    assert drawn is not None
    assert [row.label for row in drawn.rows if row.failed] == ["worker 3"]
    assert drawn.mark is not None and drawn.mark[2] is False


def test_many_ranks_are_drawn_up_to_a_bound() -> None:
    drawn = timeline(stages(Start(ranks=64)))
    assert drawn is not None
    assert len(drawn.rows) == 3 + 16 and drawn.left_out == 48


def test_positions_against_gate_and_expectation() -> None:
    first, second = positions(smoke())[:2]
    assert (first.found, first.gate, first.expected, first.good) == (0.212, 0.45, 1.0, False)
    assert (second.gate, second.good) == (None, True)


def test_curves_show_what_was_seen_only() -> None:
    names = [curve.name for curve in curves(contents().samples)]
    assert names == ["GPU memory, all cards", "use of the busiest card", "read from disk", "CPU"]
    without = [s.model_copy(update={"gpus": [], "cpu": None}) for s in contents().samples]
    assert [curve.name for curve in curves(without)] == ["read from disk"]
    assert curves(contents().samples[:2]) == []


def test_memory_of_a_start_without_a_plan() -> None:
    found = {row.name: (row.planned, row.found) for row in rows(None, {"kv_gib": 12.41, "kv_tokens": 185344.0})}
    assert found == {
        "KV cache on each rank": ("not known", "12.41 GiB"),
        "tokens in the KV cache": ("not known", "185,344"),
    }


def test_a_log_by_itself(tmp_path: Path) -> None:
    from benchmarks.replay.make_log import make_log

    log = tmp_path / "start.log"
    log.write_text("".join(f"{text}\n" for _, text in make_log(Start(crash_at=0.83))))
    found = of_log(log)
    assert found.diagnosis is not None and found.diagnosis.root_cause is not None
    line = found.diagnosis.root_cause.line
    assert any(q.number == line and q.evidence and "SafetensorError" in q.text for q in found.quoted)
    assert any(q.number == 0 for q in found.quoted) or len(found.quoted) < 20
    assert re.search(r"failed after 25:4\d min in stage weights", page(found))


def test_files_that_are_no_good_become_notes(tmp_path: Path) -> None:
    notes: list[str] = []
    assert read(tmp_path / "smoke.json", SmokeIn, notes) is None and notes == []
    (tmp_path / "smoke.json").write_text("{")
    (tmp_path / "stages.json").write_text(json.dumps({"spans": "x"}))
    assert read(tmp_path / "smoke.json", SmokeIn, notes) is None
    assert read(tmp_path / "stages.json", StagesIn, notes) is None
    assert len(notes) == 2 and notes[0].startswith("smoke.json cannot be read")
    (tmp_path / "events.jsonl").write_text('{"event": "resources", "at": 1}\n{"event": "resources"\n{"resources": 1}\n')
    assert [s.at for s in read_resources(tmp_path / "events.jsonl")] == [1.0]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_number_that_is_none_is_a_note(number: str, tmp_path: Path) -> None:
    (tmp_path / "stages.json").write_text(f'{{"ready_s": {number}, "ended_s": 1}}')
    notes: list[str] = []
    assert read(tmp_path / "stages.json", StagesIn, notes) is None and "stages.json cannot be read" in notes[0]
    for name, value in {"good": "1", "bad": number}.items():
        (tmp_path / name).mkdir()
        text = f'{{"schema": "kit.stages/1", "ready_s": 1, "seconds": {{"load": {value}}}}}'
        (tmp_path / name / "stages.json").write_text(text)
    assert former(tmp_path) == [{"load": 1.0}]
