"""The patches that come with the kit, against what was measured on every release (tests/data/patches)."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest

from kit.errors import UsageError
from kit.patches import catalog
from kit.patches.catalog import Catalog
from kit.patches.inside.diff import parse_diff
from kit.patches.inside.probe import MARKER
from kit.patches.plan import in_order
from kit.resources import folder

RELEASES = json.loads((Path(__file__).parents[2] / "data" / "patches" / "releases.json").read_text())
CATALOGS = [pytest.param(catalog.product(), id="product"), pytest.param(catalog.rehearsal(), id="rehearsal")]


def test_the_series_for_each_release() -> None:
    known = catalog.product()
    series = [
        "eagle3-target-types",
        "kimi-media-placeholder",
        "deepseek-aux-hidden-states",
        "kimi-k25-eagle3",
    ]
    for vllm in RELEASES:
        found = known.series_for(vllm)
        assert [diff.id for diff in found.diffs] == series if found else vllm not in ("0.16.0", "0.17.0", "0.17.1")
    assert [patch.id for patch in in_order(known)] == series


@pytest.mark.parametrize("vllm", RELEASES)
def test_what_the_metadata_says_is_what_was_measured(vllm: str) -> None:
    known = catalog.product()
    series = known.series_for(vllm)
    for patch in known.patches.values():
        outcome = "obsolete" if not patch.needed_by(vllm) else "applies" if series else "no-diff"
        assert RELEASES[vllm]["outcomes"][patch.id] == outcome
    for diff in series.diffs if series else ():
        for path, hashes in diff.files.items():
            assert hashes.before == RELEASES[vllm]["files"][path]


@pytest.mark.parametrize("known", CATALOGS)
def test_every_diff_is_small_marked_and_as_its_metadata_says(known: Catalog) -> None:
    for series in known.series:
        assert sorted(path.name for path in series.folder.iterdir()) == sorted(
            [diff.file for diff in series.diffs] + ["series.yaml"]
        )
        for diff in series.diffs:
            text = series.text(diff)
            changes = parse_diff(text)
            assert set(changes) == set(diff.files)
            assert text.splitlines()[0] == known.patches[diff.id].title
            for hunks in changes.values():
                added = [line for hunk in hunks for line in hunk.new]
                assert any(MARKER + diff.id in line for line in added)
                assert all(len(hunk.old) <= 15 and len(hunk.new) <= 20 for hunk in hunks)


@pytest.mark.parametrize("known", CATALOGS)
def test_the_example_of_each_symptom_shows_its_texts(known: Catalog) -> None:
    for patch in known.patches.values():
        assert all(text in patch.symptom.example for text in patch.symptom.text)


def test_rehearsal_changes_lie_apart() -> None:
    assert not set(catalog.product().patches) & set(catalog.rehearsal().patches)
    for path in (folder("images") / "patches").rglob("*.patch"):
        assert "rehearsal" not in path.read_text().lower()


def test_the_part_for_the_image_needs_nothing_but_python() -> None:
    import sys

    inside = Path(catalog.__file__).parent / "inside"
    for path in inside.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 10))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            assert all(name.split(".")[0] in sys.stdlib_module_names for name in names), (path, names)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("catalog/kimi-k25-eagle3.yaml", "kind: class-interface", "kind: clas-interface", "no probe of kit/patches"),
        ("catalog/kimi-k25-eagle3.yaml", "id: kimi-k25-eagle3", "id: other", "must be its id, other.yaml"),
        ("catalog/kimi-k25-eagle3.yaml", "why:", "reason:", "is not right"),
        ("catalog/kimi-k25-eagle3.yaml", "title:", "title: [", "is not YAML"),
        ("vllm-0.16/series.yaml", "id: kimi-k25-eagle3", "id: unheard-of", "nothing is known about unheard-of"),
        ("vllm-0.16/series.yaml", "04-kimi", "05-kimi", "nothing is known about 05-kimi-k25-eagle3.patch"),
        ("vllm-0.16/series.yaml", "before: ", "before: x", "is not right"),
    ],
)
def test_a_fault_in_the_metadata_names_the_file(tmp_path: Path, file: str, old: str, new: str, said: str) -> None:
    shutil.copytree(folder("images") / "patches", tmp_path / "patches")
    path = tmp_path / "patches" / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError) as failed:
        catalog.load(tmp_path / "patches", "product")
    assert str(path) in failed.value.message
    assert said in "\n".join([failed.value.message, *failed.value.evidence])
