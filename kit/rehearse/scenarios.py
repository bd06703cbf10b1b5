"""Which patches are left out on purpose, in which order, and what must then be seen. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kit.patches.catalog import Patch
from kit.patches.inside.apply import patched
from kit.patches.inside.common import Tree
from kit.patches.plan import PatchPlan
from kit.patches.stage import metadata

TYPES = {"kimi-k2.5": "kimi_k25", "deepseek-v3": "deepseek_v3"}
"""Reference form -> the `model_type` that patches name."""


@dataclass(frozen=True)
class Scenario:
    """One start: the form of the target, the patches that are in, and the patch whose absence must show.

    `absent` None means that the start must succeed, with counters as predicted.
    """

    form: str
    baked: tuple[str, ...]
    absent: Patch | None

    @property
    def title(self) -> str:
        return f"{self.form} with {len(self.baked)} patches" + (f", without {self.absent.id}" if self.absent else "")


def scenarios(plan: PatchPlan) -> list[Scenario]:
    """For each form that the patches are for: none of them, the first, the first two, ... all of them."""
    chain = []
    for form, model_type in TYPES.items():
        patches = [item.patch for item in plan.chosen if model_type in item.patch.affects.model_types]
        for count in range(len(patches) + 1) if patches else ():
            baked = tuple(patch.id for patch in patches[:count])
            chain.append(Scenario(form, baked, patches[count] if count < len(patches) else None))
    return chain


def files_of(scenario: Scenario, plan: PatchPlan, released: Tree) -> dict[str, str]:
    """Every file that the plan's patches change, as it is with only the scenario's patches: path -> text.

    `released` reads the files of the release. Raises Refused where they are not the ones patches were made for.
    """
    paths = {path for item in plan.chosen for path in item.diff.files}
    texts = {path: text for path in paths if (text := released(path)) is not None}
    within = [(metadata(item), item.series.text(item.diff)) for item in plan.chosen if item.patch.id in scenario.baked]
    return texts | patched(released, within)


@dataclass(frozen=True)
class Seen:
    """What one start showed: whether it became healthy with exact counters, and the text of its log."""

    scenario: Scenario
    healthy: bool
    symptom: bool
    cause: str
    seconds: float

    @property
    def as_expected(self) -> bool:
        return self.healthy if self.scenario.absent is None else (self.symptom and not self.healthy)


def shows(patch: Patch, cause: str) -> bool:
    """Whether a message is what is seen without a patch."""
    return all(text in cause for text in patch.symptom.text)


def red_and_green(seen: list[Seen]) -> Mapping[str, tuple[bool, bool]]:
    """For each patch: seen red without it, and green with it (a healthy start of a form that needs it)."""
    ids = dict.fromkeys(item.scenario.absent.id for item in seen if item.scenario.absent)
    return {
        name: (
            any(s.as_expected for s in seen if s.scenario.absent and s.scenario.absent.id == name),
            any(s.healthy for s in seen if s.scenario.absent is None and name in s.scenario.baked),
        )
        for name in ids
    }
