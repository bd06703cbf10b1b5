"""docs/patches.md, from the catalog and the series."""

from __future__ import annotations

from kit.patches.catalog import Catalog, Patch, product, rehearsal
from kit.patches.plan import in_order, releases_of


def patches_page() -> str:
    """The text of docs/patches.md."""
    lines = [
        "# Patches",
        "",
        "Generated from `images/patches/` and `images/rehearsal-patches/`; `make docs` writes it anew.",
        "What becomes of each on any release: `kit patches check --vllm X.Y.Z`.",
        "How to write one: `images/patches/README.md`.",
        "",
        "| patch | mends | diffs for vLLM | not needed from |",
        "| --- | --- | --- | --- |",
    ]
    known, apart = product(), rehearsal()
    for patch in in_order(known):
        releases = ", ".join(releases_of(patch.id, known))
        lines.append(f"| [{patch.id}](#{patch.id}) | {patch.title} | {releases} | {patch.fixed_in or 'never'} |")
    for patch in in_order(known):
        lines += _section(patch, known)
    lines += [
        "",
        "# Changes for rehearsals only",
        "",
        "They never enter an image that serves: the build and every start refuse them there.",
    ]
    for patch in in_order(apart):
        lines += _section(patch, apart)
    return "\n".join(lines) + "\n"


def _section(patch: Patch, known: Catalog) -> list[str]:
    files = sorted({p for s in known.series for d in s.diffs if d.id == patch.id for p in d.files})
    targets = ", ".join(f"`{kind}`" for kind in patch.affects.model_types)
    return [
        "",
        f"## {patch.id}",
        "",
        f"{patch.title}. {patch.why}",
        "",
        f"Without it ({patch.symptom.process.replace('_', ' ')}):",
        "",
        f"    {patch.symptom.example}",
        "",
        *([f"Targets (`model_type`): {targets}; method {', '.join(patch.affects.methods)}.", ""] if targets else []),
        f"Changes {', '.join(f'`{file}`' for file in files)}. Probe: {patch.probe.kind}.",
    ]
