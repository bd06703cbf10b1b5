"""The image that will run."""

from __future__ import annotations

from kit.checks.base import Answer, Check, GpuCheck
from kit.config import Deployment
from kit.image.gpu_code import CORE, from_label, support
from kit.image.recipe import CODE_LABEL


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


class GpuCode(GpuCheck):
    """vLLM's and torch's own modules must hold machine code for the cards, or PTX that the driver can compile for them:
    otherwise the load ends with "no kernel image is available". Modules made for other cards alone are named; vLLM has
    substitutes for what they do. The image's label says what each module holds, as read from the wheels."""

    id = "image.gpu-code"
    title = "the image has code for these GPUs"
    requires = ("image.present",)

    def check(self, image_labels: dict[str, str], capabilities: tuple[tuple[int, int], ...]) -> Answer:
        label = image_labels.get(CODE_LABEL)
        if label is None:
            return self.skip("the image is not there, or not one that tells")
        if not capabilities:
            return self.skip("no card here, and gpus.name is none whose compute capability is known")
        try:
            modules = from_label(label)
        except ValueError as error:
            return self.unknown(f"label {CODE_LABEL} cannot be read ({str(error)[:200]})", "kit image build --again")
        ways = {card: {name: support(codes, card) for name, codes in sorted(modules.items())} for card in capabilities}
        for card, way in ways.items():
            if lacking := [name for name in way if way[name] == "none" and CORE.match(name)]:
                held = "; ".join(f"{name}: {', '.join(map(str, sorted(modules[name])))}" for name in lacking)
                return self.bad(
                    f"no code for compute capability {card[0]}.{card[1]} in {held}",
                    f"sm_{card[0]}{card[1]}, or PTX of it or before",
                    "a release of vLLM built for this card: engine.vllm in kit.yaml, kit image build",
                )
        parts = [f"compute capability {', '.join('{}.{}'.format(*card) for card in capabilities)}"]
        for kind, text in (("jit", "compiled by the driver at first use"), ("none", "for other cards only")):
            if names := [name for name in sorted(modules) if any(way[name] == kind for way in ways.values())]:
                parts.append(f"{text}: {', '.join(names)}")
        return self.good("; ".join(parts))
