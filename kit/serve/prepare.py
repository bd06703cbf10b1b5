"""What must be in place before a container starts: models, API key, rendered files, a free port."""

from __future__ import annotations

from pathlib import Path

from kit import files
from kit.config import Deployment
from kit.errors import MissingError
from kit.render import Rendered, render
from kit.serve.api import read_key


def prepare(deployment: Deployment, image: str) -> Rendered:
    """Bring everything a start needs into place and return the rendered files.

    Raises MissingError for a model, drafter, mount or key that is not there or cannot be read.
    """
    write_reference(deployment)
    _folder(deployment.target, "model", "model.path")
    if deployment.drafter:
        _folder(deployment.drafter, "drafter", "speculative.drafter.path")
    for mount in deployment.kit.mounts:
        if not deployment.path(mount.source).exists():
            raise MissingError(
                f"the mount {deployment.path(mount.source)} does not exist", hint="mend mounts in kit.yaml"
            )
    copy_key(deployment)
    rendered = render(deployment, image)
    rendered.write(deployment.rendered)
    return rendered


def write_reference(deployment: Deployment) -> None:
    """Write the reference models that the deployment names, if it names any; quick when they are there."""
    kit = deployment.kit
    if kit.model.reference is None:
        return
    from kit.reference import write

    drafter = kit.speculative.drafter.reference if kit.speculative else None
    write(kit.model.reference, deployment.reference, vllm=kit.engine.vllm, drafters=[drafter] if drafter else [])


def copy_key(deployment: Deployment) -> None:
    """Copy the API key to where the container's user can read it.

    The file is readable, its folder only by its owner: other users of the machine cannot reach it,
    the container sees just the file.
    """
    key = read_key(deployment)
    if key is None:
        return
    folder = deployment.api_key_copy.parent
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as error:
        raise files.no_write(folder, error) from None
    files.write(deployment.api_key_copy, key + "\n", 0o444)


def _folder(path: Path, what: str, key: str) -> None:
    if not (path / "config.json").is_file():
        why = "has no config.json" if path.is_dir() else "does not exist"
        raise MissingError(f"the {what} folder {path} {why}", hint=f"mend {key} in kit.yaml")
