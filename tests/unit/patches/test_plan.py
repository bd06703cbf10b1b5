"""Which patches an image gets, and what stays incompatible."""

from __future__ import annotations

import json

import pytest

from kit.errors import UsageError
from kit.patches import catalog, stage
from kit.patches.plan import incompatibilities, plan

KNOWN = catalog.product()
ALL = ("eagle3-target-types", "kimi-media-placeholder", "deepseek-aux-hidden-states", "kimi-k25-eagle3")
DEEPSEEK = ("eagle3-target-types", "deepseek-aux-hidden-states")


@pytest.mark.parametrize(
    ("vllm", "method", "ids"),
    [
        ("0.16.0", "eagle3", ALL),
        ("0.16.0+cpu", "eagle3", ALL),
        ("0.17.1", "eagle3", ALL),
        ("0.16.0", None, ()),
        ("0.16.0", "ngram", ()),
        ("0.18.0", "eagle3", ()),
        ("0.33.0", "eagle3", ()),
        ("0.15.1", "eagle3", ()),
    ],
)
def test_auto_takes_what_the_release_needs(vllm: str, method: str | None, ids: tuple[str, ...]) -> None:
    made = plan(vllm, "auto", KNOWN, method=method)
    assert (made.ids, made.label, made.obsolete, made.missing) == (ids, ",".join(ids), (), ())


def test_a_list_keeps_the_order_of_the_series() -> None:
    made = plan("0.16.0", ["kimi-k25-eagle3", "eagle3-target-types"], KNOWN, method="eagle3")
    assert made.ids == ("eagle3-target-types", "kimi-k25-eagle3")


def test_what_a_list_leaves_out_is_told_for_the_target() -> None:
    made = plan("0.16.0", ["eagle3-target-types"], KNOWN, method="eagle3", target_model_type="kimi_k25")
    assert [item.patch.id for item in made.missing] == list(ALL[1:])
    assert made.missing[0].remedy == (
        "add kimi-media-placeholder to engine.patches in kit.yaml (or write: patches: auto)"
    )


def test_a_new_release_drops_patches() -> None:
    made = plan("0.18.0", list(ALL), KNOWN, method="eagle3")
    assert made.ids == () and [patch.id for patch in made.obsolete] == list(ALL)


def test_a_release_that_needs_a_patch_without_a_diff() -> None:
    with pytest.raises(UsageError) as failed:
        plan("0.15.1", ["kimi-k25-eagle3"], KNOWN, method="eagle3")
    assert failed.value.message == (
        "vLLM 0.15.1 needs patch kimi-k25-eagle3, but there is no diff of it for this release"
    )
    assert failed.value.hint == "kit patches check --vllm 0.15.1"
    assert failed.value.evidence == ["kimi-k25-eagle3 exists for vLLM 0.16.0, 0.17.0, 0.17.1"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("kimi-k2-eagle3", "did you mean kimi-k25-eagle3?"), ("x", "kit patches list"), ("../etc", "kit patches list")],
)
def test_an_unknown_patch(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match="no patch is named") as failed:
        plan("0.16.0", [name], KNOWN, method="eagle3")
    assert failed.value.hint == hint


def test_what_is_no_version() -> None:
    with pytest.raises(UsageError, match="'newest' is not a vLLM version"):
        plan("newest", "auto", KNOWN, method="eagle3")


@pytest.mark.parametrize(
    ("vllm", "model_type", "method", "ids"),
    [
        ("0.16.0", "kimi_k25", "eagle3", ALL),
        ("0.15.1", "kimi_k25", "eagle3", ALL),
        ("0.16.0", "kimi_k2", "eagle3", DEEPSEEK),
        ("0.17.1", "deepseek_v3", "eagle3", DEEPSEEK),
        ("0.16.0", "llama", "eagle3", ()),
        ("0.16.0", "kimi_k25", None, ()),
        ("0.16.0", None, "eagle3", ()),
        ("0.18.0", "kimi_k25", "eagle3", ()),
        ("0.33.0", "kimi_k25", "eagle3", ()),
    ],
)
def test_incompatibilities(vllm: str, model_type: str | None, method: str | None, ids: tuple[str, ...]) -> None:
    found = incompatibilities(vllm, model_type, method, KNOWN)
    assert tuple(item.patch.id for item in found) == ids
    assert all(item.available == (vllm != "0.15.1") and not item.baked for item in found)


def test_remedies() -> None:
    (mended, *_) = incompatibilities("0.16.0", "kimi_k25", "eagle3", KNOWN, baked=ALL)
    assert mended.remedy == "mended by patch eagle3-target-types"
    (old, *_) = incompatibilities("0.15.1", "kimi_k25", "eagle3", KNOWN)
    assert old.remedy == "use vLLM 0.18.0 or newer; there is no patch for this release"


def test_the_staged_series() -> None:
    files = stage.series_files(plan("0.17.1", "auto", KNOWN, method="eagle3"))
    series = json.loads(files["series.json"])
    assert series["vllm"] == ["0.17.0", "0.17.1"]
    assert [(entry["id"], entry["purpose"]) for entry in series["patches"]] == [(name, "product") for name in ALL]
    assert list(files) == ["series.json", *(f"{n:02d}-{name}.patch" for n, name in enumerate(ALL, 1))]
    assert files == stage.series_files(plan("0.17.1", "auto", KNOWN, method="eagle3"))


def test_the_staged_series_of_a_release_without_patches() -> None:
    files = stage.series_files(plan("0.33.0+cpu", "auto", KNOWN, method="eagle3"))
    assert json.loads(files["series.json"]) == {"schema": "kit.patch-series/1", "vllm": ["0.33.0"], "patches": []}


def test_rehearsal_changes_are_staged_only_on_request_and_say_so() -> None:
    product = plan("0.16.0", "auto", KNOWN, method="eagle3")
    apart = plan("0.16.0", "auto", catalog.rehearsal(), method="eagle3")
    entries = json.loads(stage.series_files(product, apart)["series.json"])["patches"]
    assert [entry["purpose"] for entry in entries] == ["product"] * 4 + ["rehearsal"]


def test_the_program_for_the_image() -> None:
    assert {"__main__.py", "apply.py", "probe.py"} < set(stage.program_files())
