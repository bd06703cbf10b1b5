"""A small image on the real base: the same way of building, in seconds."""

from __future__ import annotations

from dataclasses import replace

from kit.image import load
from kit.image.recipe import Recipe
from kit.lock import wheels as wheel_list
from kit.patches import catalog
from kit.patches.plan import plan

SMALL = ("annotated-types", "idna", "packaging", "typing-extensions")
DOCKERFILE = """FROM scratch
ADD base.tar /
RUN --mount=type=bind,from=wheels,target=/wheels --mount=type=bind,source=requirements.lock,target=/requirements.lock \\
    --mount=type=bind,source=inside,target=/inside --mount=type=tmpfs,target=/tmp \\
    python3 -m venv --without-pip /opt/venv \\
    && PYTHONPATH="$(echo /usr/share/python-wheels/pip-*.whl)" /opt/venv/bin/python -m pip install --no-index \\
       --find-links=/wheels --require-hashes --no-deps --no-compile --quiet --requirement=/requirements.lock \\
    && echo {text} > /opt/text && sh /inside/settle {epoch}
USER 2000:2000
LABEL kit.recipe="small"
"""


def small_recipe() -> Recipe:
    """The base of vLLM's image with a few small wheels."""
    whole = load.load("vllm-cpu", "0.32.0", plan("0.32.0", [], catalog.product(), method=None))
    wheels = tuple(w for w in whole.wheels if w.name in SMALL)
    assert len(wheels) == len(SMALL)
    files = {**whole.files, "requirements.lock": wheel_list.dump(wheels).encode()}
    return with_text(replace(whole, name="test-small", wheels=wheels, files=files), "one")


def with_text(recipe: Recipe, text: str) -> Recipe:
    dockerfile = DOCKERFILE.format(text=text, epoch=recipe.epoch).encode()
    return replace(recipe, files={**recipe.files, "Dockerfile": dockerfile})
