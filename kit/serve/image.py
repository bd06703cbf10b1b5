"""Which image a deployment runs, and whether the engine has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.config import Deployment
from kit.errors import MissingError
from kit.serve.container import docker_errors

if TYPE_CHECKING:
    from docker import DockerClient


def image_name(deployment: Deployment) -> str:
    """The reference of the deployment's image: the existing one, or the one its recipe builds."""
    if deployment.kit.engine.existing:
        return deployment.kit.engine.existing
    from kit.image import reference

    return reference(deployment)


def image_of(deployment: Deployment, client: DockerClient) -> str:
    """`image_name`, once the engine is found to have it. Raises MissingError."""
    from docker.errors import ImageNotFound

    name = image_name(deployment)
    with docker_errors(f"looking for image {name}"):
        try:
            client.images.get(name)
        except ImageNotFound:
            hint = (
                "docker load it, or mend engine.existing" if deployment.kit.engine.existing else build_hint(deployment)
            )
            raise MissingError(f"the engine has no image {name}", hint=hint) from None
    return name


def build_hint(deployment: Deployment) -> str:
    """The command that builds the image of this deployment."""
    return f"kit image build -f {deployment.file}"
