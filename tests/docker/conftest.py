"""Real Docker, real vLLM on the CPU. The engine is the one that is there, or the kit's private one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kit.image.recipe import Recipe
from tests.docker.harness import EMBEDDED, Box, laid_over, run_kit
from tests.docker.small import small_recipe


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in Path(item.fspath).parents:
            item.add_marker(pytest.mark.docker)
            if item.get_closest_marker("timeout") is None:  # a module may give its tests more
                item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def engine() -> dict[str, Any]:
    """A Docker engine that answers, set up if there is none; what `kit engine status` says of it."""
    setup = run_kit("engine", "setup")
    assert setup.code == 0, setup.err
    return run_kit("engine", "status", "--json").json


@pytest.fixture(scope="session")
def image(engine: dict[str, Any]) -> None:
    """The embedded image, built if it is not there."""
    built = run_kit("image", "build", "-f", EMBEDDED, timeout=1800)
    assert built.code == 0, built.err


@pytest.fixture(scope="session")
def small(engine: dict[str, Any]) -> Recipe:
    """A small image's recipe, for builds in seconds."""
    return small_recipe()


@pytest.fixture
def box(image: None, tmp_path: Path, worker_port: int) -> Iterator[Callable[..., Box]]:
    """Makes deployments like the embedded one with some values changed; stops them in the end.

    `box(speculative={...}, engine={...})` lays each mapping over that section of the embedded kit.yaml.
    """
    made: list[Box] = []

    def make(**sections: dict[str, Any]) -> Box:
        values = yaml.safe_load(EMBEDDED.read_text())
        values["name"] = "test"
        values.setdefault("server", {})["port"] = worker_port
        for section, changes in sections.items():
            values[section] = laid_over(values.get(section) or {}, changes)
        folder = tmp_path / str(len(made))
        folder.mkdir()
        (folder / "kit.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
        made.append(Box(folder, folder / "kit.yaml", worker_port))
        return made[-1]

    yield make
    for one in made:
        one.kit("down")


@pytest.fixture(scope="session")
def worker_port() -> int:
    return 18000 + os.getpid() % 1000
