"""The image that will run."""

from __future__ import annotations

from kit.checks.base import Answer, Check
from kit.config import Deployment


class Present(Check):
    """The engine must have the image; it is built once and never pulled."""

    id = "image.present"
    title = "the image is built"
    severity = "warn"
    requires = ("docker.answers",)

    def check(self, image_or_why: tuple[str | None, str], deployment: Deployment) -> Answer:
        from kit.serve.image import build_hint

        name, why = image_or_why
        existing = deployment.kit.engine.existing
        if name is not None:
            return self.good(name)
        if existing:
            return self.bad(why, existing, f"docker load -i FILE, or mend engine.existing ({existing})", "fail")
        return self.bad(why, "an image", build_hint(deployment))
