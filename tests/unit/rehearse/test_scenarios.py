"""Which starts prove the patches, with which files, and what counts as seen."""

from __future__ import annotations

import pytest

from kit.patches import catalog
from kit.patches.inside.common import Refused
from kit.patches.plan import plan
from kit.rehearse.scenarios import Scenario, Seen, files_of, red_and_green, scenarios, shows

KNOWN = catalog.product()
PLAN = plan("0.16.0", "auto", KNOWN, method="eagle3")
ALL = ("eagle3-target-types", "kimi-media-placeholder", "deepseek-aux-hidden-states", "kimi-k25-eagle3")


def test_one_start_more_than_patches_for_each_form() -> None:
    steps = [(s.form, s.baked, s.absent and s.absent.id) for s in scenarios(PLAN)]
    assert steps == [
        ("kimi-k2.5", (), ALL[0]),
        ("kimi-k2.5", ALL[:1], ALL[1]),
        ("kimi-k2.5", ALL[:2], ALL[2]),
        ("kimi-k2.5", ALL[:3], ALL[3]),
        ("kimi-k2.5", ALL, None),
        ("deepseek-v3", (), ALL[0]),
        ("deepseek-v3", (ALL[0],), ALL[2]),
        ("deepseek-v3", (ALL[0], ALL[2]), None),
    ]


def test_a_release_without_patches_has_nothing_to_prove() -> None:
    assert scenarios(plan("0.32.0", "auto", KNOWN, method="eagle3")) == []


def test_the_files_must_be_those_of_the_release() -> None:
    with pytest.raises(Refused, match="is not the file this patch was made for"):
        files_of(scenarios(PLAN)[1], PLAN, lambda path: "something else\n")


def test_files_of_patches_left_out_stay_as_released() -> None:
    paths = {path for item in PLAN.chosen for path in item.diff.files}
    assert files_of(Scenario("kimi-k2.5", (), None), PLAN, lambda path: path) == {path: path for path in paths}


@pytest.mark.parametrize("patch", KNOWN.patches.values(), ids=list(KNOWN.patches))
def test_a_symptom_is_known_by_its_texts(patch: catalog.Patch) -> None:
    assert shows(patch, "much before\n" + patch.symptom.example + "\nmuch after")
    assert not shows(patch, "RuntimeError: Engine core initialization failed. See root cause above.")


def seen(index: int, *, healthy: bool = False, symptom: bool = False) -> Seen:
    return Seen(scenarios(PLAN)[index], healthy, symptom, "", 1.0)


def test_as_expected() -> None:
    assert seen(0, symptom=True).as_expected
    assert not seen(0, symptom=False).as_expected
    assert not seen(0, healthy=True, symptom=True).as_expected
    assert seen(4, healthy=True).as_expected
    assert not seen(4).as_expected


def test_red_and_green() -> None:
    all_good = [seen(i, healthy=i in (4, 7), symptom=i not in (4, 7)) for i in range(8)]
    assert red_and_green(all_good) == {name: (True, True) for name in ALL}
    kimi_broken = [seen(i, healthy=i == 7, symptom=i not in (4, 7)) for i in range(8)]
    assert red_and_green(kimi_broken) == {
        ALL[0]: (True, True),
        ALL[1]: (True, False),
        ALL[2]: (True, True),
        ALL[3]: (True, False),
    }
    no_red = [seen(0, symptom=False), *all_good[1:]]
    assert red_and_green(no_red)[ALL[1]] == (True, True)
