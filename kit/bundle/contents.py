"""Gathers what goes into a bundle of one deployment, except the image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kit.bundle import leaks, wheels
from kit.bundle.manifest import SiteValue
from kit.bundle.qualification import Qualification
from kit.bundle.write import Data
from kit.config import Deployment
from kit.errors import GateError, MissingError, UsageError
from kit.home import kit_home
from kit.support.redact import Rule

SHELL = Path(__file__).with_name("shell")
# kit.yaml keys of what lies outside the bundle, and the variable that sets each on the operator's machine
SITE = {
    "model.path": "KIT_MODEL_PATH",
    "speculative.drafter.path": "KIT_SPECULATIVE_DRAFTER_PATH",
    "server.api_key_file": "KIT_SERVER_API_KEY_FILE",
    "server.host": "KIT_SERVER_HOST",
    "server.port": "KIT_SERVER_PORT",
}


@dataclass(frozen=True)
class Contents:
    """Files by name, and the values of kit.yaml that the operator's machine may have to change."""

    files: dict[str, Data]
    site: list[SiteValue]


def gather(
    deployment: Deployment,
    image: str,
    qualification: Qualification,
    lock: Mapping[str, bytes],
    *,
    pythons: Sequence[str],
    kept: Path,
    allowed: Sequence[str],
    say: Callable[[str], None],
) -> Contents:
    """All files of the bundle of `deployment`, which runs `image`; `lock` are those of its lock.

    `kept` is where downloaded wheels are kept; `allowed` are rules of `kit.bundle.leaks` that a
    person says do not matter here. Raises UsageError for a deployment that cannot be handed over,
    GateError when a secret or a name of this machine would get in.
    """
    refuse_overrides(deployment)
    own = _deployment_files(deployment)
    own |= {f"rendered/{name}": data for name, data in _rendered(deployment, image).items()}
    own |= {f"patches/{name}": data for name, data in _patches(deployment).items()}
    own |= {**qualification.files(), **lock}
    refuse_leaks(own, deployment, allowed)
    files: dict[str, Data] = {**own, **_documents()}
    for script in ("install.sh", "verify.sh"):
        files[script] = (SHELL / script).read_bytes()
    files |= wheels.collect(pythons, kept, say)
    return Contents(files, site_values(deployment))


def site_values(deployment: Deployment) -> list[SiteValue]:
    """What the operator may have to set; `needed` where the value is a path relative to a folder that stays here."""
    found = []
    tree = deployment.kit.model_dump(by_alias=True)
    for key, variable in SITE.items():
        value = tree
        for part in key.split("."):
            value = (value or {}).get(part)  # type: ignore[assignment]
        if value is not None:
            is_path = key.endswith(("path", "file"))
            needed = is_path and not str(value).startswith("/")
            found.append(SiteValue(key=key, variable=variable, value=str(value), needed=needed))
    return found


def refuse_overrides(deployment: Deployment) -> None:
    """The bundle carries kit.yaml as it is, so no value may come from elsewhere. Raises UsageError."""
    where = f"{deployment.file.name}:"
    foreign = {".".join(map(str, path)): s for path, s in deployment.sources.items() if not s.startswith(where)}
    if foreign:
        raise UsageError(
            "a bundle carries kit.yaml as it is; these values come from elsewhere",
            evidence=[f"{key} from {source}" for key, source in sorted(foreign.items())],
            hint=f"write them into {deployment.file}, or unset the variables",
        )


def refuse_leaks(files: Mapping[str, bytes], deployment: Deployment, allowed: Sequence[str]) -> None:
    """Raise GateError when a file tells a secret or a name of this machine."""
    if found := leaks.found_in(files, machine_rules(deployment), allowed):
        raise GateError(
            "the bundle would tell secrets, or names of this machine",
            evidence=found[:20],
            hint="write paths and hosts that hold on any machine (/models/NAME); or --allow RULE if it may be told",
        )


def machine_rules(deployment: Deployment) -> list[Rule]:
    """What this machine's files could tell of it."""
    folders = {"folder": deployment.folder, "kit-folder": wheels.project(), "KIT_HOME": kit_home()}
    return leaks.of_machine(deployment, folders)


def _deployment_files(deployment: Deployment) -> dict[str, bytes]:
    files = {"deployment/kit.yaml": deployment.file.read_bytes()}
    if (prompts := deployment.kit.smoke.prompts) is not None:
        if PurePosixPath(prompts).is_absolute() or ".." in PurePosixPath(prompts).parts:
            raise UsageError(
                f"smoke.prompts ({prompts}) lies outside the folder of kit.yaml, and a bundle carries that folder's",
                hint="put the prompts file beside kit.yaml",
            )
        try:
            files[f"deployment/{PurePosixPath(prompts)}"] = deployment.path(prompts).read_bytes()
        except OSError as error:
            raise MissingError(f"cannot read {deployment.path(prompts)}: {error.strerror}", hint="mend it") from None
    if relative := [m.source for m in deployment.kit.mounts if not m.source.startswith("/")]:
        raise UsageError(
            "mounts relative to kit.yaml do not travel in a bundle", evidence=relative, hint="use absolute paths"
        )
    return files


def _rendered(deployment: Deployment, image: str) -> dict[str, bytes]:
    """The rendered tree as it will be where bundles are installed by default."""
    from kit.render import render

    place = Path("/opt/kit") / deployment.name / "current" / "deployment" / "kit.yaml"
    return render(Deployment(deployment.kit, place, {}), image).files


def _patches(deployment: Deployment) -> dict[str, bytes]:
    from kit.patches import catalog, stage
    from kit.patches.plan import plan

    kit = deployment.kit
    method = kit.speculative.method if kit.speculative else None
    return stage.series_files(plan(kit.engine.vllm, kit.engine.patches, catalog.product(), method=method))


def _documents() -> dict[str, bytes]:
    return {f"docs/{page.name}": page.read_bytes() for page in sorted((wheels.project() / "docs").glob("*.md"))}
