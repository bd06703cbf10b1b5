"""Unified diffs are applied to the letter or not at all."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.patches.inside.common import Refused
from kit.patches.inside.diff import HunkFailed, apply_hunks, parse_diff

OLD = "one\ntwo\nthree\nfour\nfive\n"
DIFF = "--- a/m/x.py\n+++ b/m/x.py\n@@ -2,3 +2,3 @@\n two\n-three\n+THREE\n four\n"


def lines(text: list[str]) -> str:
    return "".join(line + "\n" for line in text)


TEXTS = st.lists(st.sampled_from(["", "a", "b", "  c", "-d", "+e", "@@ f"]), min_size=1, max_size=30)


@given(TEXTS, TEXTS)
def test_any_change_comes_out_as_it_was_meant(before: list[str], after: list[str]) -> None:
    old, new = lines(before), lines(after)
    diff = "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "a/m/x.py", "b/m/x.py"))
    if not diff:
        return
    assert apply_hunks("m/x.py", old, parse_diff(diff)["m/x.py"]) == new


def test_talk_before_the_diff_is_no_part_of_it() -> None:
    assert apply_hunks("m/x.py", OLD, parse_diff("Title\n\n" + DIFF)["m/x.py"]) == OLD.replace("three", "THREE")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("zero\n" + OLD, id="one line lower, where patch(1) would find it"),
        pytest.param(OLD.replace("two", "TWO"), id="context differs, which fuzz would allow"),
        pytest.param(OLD.replace("four\n", "four \n"), id="a space at the end of a line"),
        pytest.param("one\ntwo\n", id="file too short"),
        pytest.param("", id="empty file"),
        pytest.param(OLD.replace("\n", "\r\n"), id="other line ends"),
    ],
)
def test_a_hunk_is_never_moved_nor_bent(text: str) -> None:
    with pytest.raises(HunkFailed, match=r"hunk 1 does not apply to m/x\.py"):
        apply_hunks("m/x.py", text, parse_diff(DIFF)["m/x.py"])


def test_the_failure_shows_the_line() -> None:
    with pytest.raises(HunkFailed) as failed:
        apply_hunks("m/x.py", OLD.replace("three", "3"), parse_diff(DIFF)["m/x.py"])
    assert failed.value.message.endswith("line 3 is not what the patch was made for")
    assert failed.value.evidence == ["wanted: three", "found:  3"]


@pytest.mark.parametrize(
    ("diff", "said"),
    [
        ("", "changes no file"),
        ("just talk\n", "changes no file"),
        (DIFF.replace("-2,3 +2,3", "-2,4 +2,4"), "line 8 is not what hunk 1 announces"),
        (DIFF.replace("-2,3 +2,3", "-2,2 +2,2"), "belongs to no hunk"),
        (DIFF + "stray\n", "belongs to no hunk"),
        (DIFF.replace(" four", "four"), "is not what hunk 1 announces"),
        ("--- a/m/x.py\n+++ b/m/x.py\n", "belongs to no hunk"),
        (DIFF.replace("--- a/m/x.py", "--- /dev/null"), "may only change files that exist"),
        (DIFF.replace("+++ b/m/x.py", "+++ b/m/y.py"), "may only change files that exist"),
        (DIFF.replace("m/x.py", "../x.py"), "below site-packages"),
        (DIFF.replace("m/x.py", "/x.py"), "below site-packages"),
        (DIFF.replace("m/x.py", "m/x.so"), "Python files"),
        (DIFF + "\\ No newline at end of file\n", "belongs to no hunk"),
    ],
)
def test_a_damaged_diff(diff: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        parse_diff(diff)
