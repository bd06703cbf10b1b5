"""From a deployment to its image's Recipe: reads images/, templates/ and the patches; builds nothing."""

from __future__ import annotations

from pathlib import Path

from kit.config import Deployment
from kit.errors import UsageError
from kit.image import recipe as recipes
from kit.image.recipe import Base, Recipe
from kit.image.recipes import ImageSpec, locked_debs, locked_wheels, read_base, read_image
from kit.patches import catalog, stage
from kit.patches.plan import PatchPlan, plan
from kit.render.files import render_one, template_environment
from kit.resources import folder


def for_deployment(deployment: Deployment) -> Recipe:
    """The image that a deployment needs built. Raises UsageError where it names an existing one."""
    kit = deployment.kit
    if kit.engine.existing:
        raise UsageError(
            f"engine.existing names an image that is there already ({kit.engine.existing}); there is nothing to build",
            hint="kit up",
        )
    method = kit.speculative.method if kit.speculative else None
    patches = plan(kit.engine.vllm, kit.engine.patches, catalog.product(), method=method)
    return load(deployment.image_recipe, kit.engine.vllm, patches)


def load(name: str, version: str, patches: PatchPlan) -> Recipe:
    """The Recipe of image `name` with vLLM `version` and these patches."""
    spec = read_image(name)
    if version not in spec.versions:
        raise UsageError(
            f"images/{name} has no recipe for vLLM {version}",
            hint=f"it has {', '.join(spec.versions)}; a new one is an entry in images/{name}/image.yaml and `kit lock`",
        )
    inside = folder("images") / "inside"
    apart = plan(version, "auto", catalog.rehearsal(), method="eagle3") if spec.rehearsal else None
    label = ",".join([*patches.ids, *(apart.ids if apart else ())])
    return recipes.recipe(
        name,
        version,
        spec,
        on=base(spec.base),
        wheels=locked_wheels(name, version),
        dockerfile=dockerfile(name, version, spec, label),
        inside=_files(inside),
        program=stage.program_files(),
        series=stage.series_files(patches, apart),
        patches=label,
    )


def base(name: str) -> Base:
    """The base `name` as it is locked."""
    customize = (folder("images") / name / "customize.sh").read_bytes()
    return recipes.base(name, read_base(name), locked_debs(name), customize)


def dockerfile(name: str, version: str, spec: ImageSpec, patches: str) -> bytes:
    """The rendered Dockerfile of an image."""
    variables = recipes.template_variables(name, version, spec, patches)
    return render_one(template_environment(), "image/Dockerfile.j2", variables)


def _files(root: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(root.iterdir()) if p.is_file()}
