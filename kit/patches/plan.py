"""Which patches go into an image, and what stays incompatible: pure judgement, nothing is read but the catalog."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kit.errors import UsageError
from kit.patches.catalog import Catalog, Diff, Patch, Series, release


@dataclass(frozen=True)
class Chosen:
    """A patch that goes into the image: what it is, its diff for this release, and where that lies."""

    patch: Patch
    diff: Diff
    series: Series


@dataclass(frozen=True)
class Incompatibility:
    """Something that stops this target with this method on this release, and the patch that mends it.

    `baked` says that the patch is in the image; `available` that there is a diff for this release.
    """

    patch: Patch
    available: bool
    baked: bool

    @property
    def remedy(self) -> str:
        if self.baked:
            return f"mended by patch {self.patch.id}"
        if self.available:
            return f"add {self.patch.id} to engine.patches in kit.yaml (or write: patches: auto)"
        return f"use vLLM {self.patch.fixed_in or 'of another release'} or newer; there is no patch for this release"


@dataclass(frozen=True)
class PatchPlan:
    """What is baked, in order; what of the asked-for patches is no longer needed; what stays broken."""

    vllm: str
    chosen: tuple[Chosen, ...]
    obsolete: tuple[Patch, ...]
    missing: tuple[Incompatibility, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(item.patch.id for item in self.chosen)

    @property
    def label(self) -> str:
        """The patches as an image label's value; empty for none."""
        return ",".join(self.ids)


def plan(
    vllm: str,
    wanted: Literal["auto"] | Sequence[str],
    catalog: Catalog,
    *,
    method: str | None,
    target_model_type: str | None = None,
) -> PatchPlan:
    """Choose the patches for an image of this release.

    `auto` takes every patch of the release's series that `method` (None: no speculation) can need. It does
    not look at the target, so that an image does not depend on which models lie on the machine that builds it.
    `target_model_type` is the `model_type` at the top of the target's config.json, where known; then
    `missing` lists what still stops it. Raises UsageError for an id that nothing is known about, and for a
    wanted patch that this release needs but has no diff for.
    """
    series = catalog.series_for(vllm)
    diffs = {diff.id: diff for diff in series.diffs} if series else {}
    asked = [] if wanted == "auto" else list(wanted)
    for name in asked:
        if name not in catalog.patches:
            near = difflib.get_close_matches(name, catalog.patches, 1)
            raise UsageError(
                f"no patch is named {name!r}",
                hint=f"did you mean {near[0]}?" if near else "kit patches list",
            )
        if name not in diffs and catalog.patches[name].needed_by(vllm):
            raise UsageError(
                f"vLLM {vllm} needs patch {name}, but there is no diff of it for this release",
                hint=f"kit patches check --vllm {release(vllm)}",
                evidence=[f"{name} exists for vLLM {', '.join(releases_of(name, catalog)) or 'no release'}"],
            )
    chosen = tuple(
        Chosen(catalog.patches[name], diff, series)
        for name, diff in diffs.items()
        if series and (name in asked or (wanted == "auto" and method in catalog.patches[name].affects.methods))
    )
    obsolete = tuple(catalog.patches[name] for name in asked if name not in diffs)
    stops = incompatibilities(vllm, target_model_type, method, catalog, baked=[item.patch.id for item in chosen])
    return PatchPlan(vllm, chosen, obsolete, tuple(item for item in stops if not item.baked))


def incompatibilities(
    vllm: str,
    target_model_type: str | None,
    method: str | None,
    catalog: Catalog,
    *,
    baked: Sequence[str] = (),
) -> tuple[Incompatibility, ...]:
    """What stops a target of this model type with this speculative method on this release, in the order it shows."""
    series = catalog.series_for(vllm)
    available = {diff.id for diff in series.diffs} if series else set()
    return tuple(
        Incompatibility(patch, patch.id in available, patch.id in baked)
        for patch in in_order(catalog)
        if patch.needed_by(vllm) and method in patch.affects.methods and target_model_type in patch.affects.model_types
    )


def in_order(catalog: Catalog) -> list[Patch]:
    """All patches, those of a series in its order first."""
    names = [diff.id for series in catalog.series for diff in series.diffs]
    return [catalog.patches[name] for name in dict.fromkeys([*names, *catalog.patches])]


def releases_of(name: str, catalog: Catalog) -> list[str]:
    """The releases that have a diff of a patch."""
    return [vllm for series in catalog.series if any(d.id == name for d in series.diffs) for vllm in series.vllm]
