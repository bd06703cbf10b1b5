"""The container form of the bench: the twin's image, with files of the release laid over where a patch is left out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from kit import files
from kit.config import Deployment
from kit.errors import UsageError
from kit.patches import catalog
from kit.patches.check import wanted_files
from kit.patches.plan import plan
from kit.patches.source import fetch
from kit.rehearse.prove import Bench, Stage, cpu_recipe, examined, failed, free_port, watcher_in, written
from kit.rehearse.scenarios import Scenario, Seen
from kit.rehearse.twin import cpu_twin, with_files
from kit.serve.down import down
from kit.serve.start import start
from kit.serve.watched import Died, Started


def container_bench(deployment: Deployment, say: Callable[[str], None]) -> Bench:
    """A bench of the deployment's twin.

    Builds the twin's image where it is not there, and reads the released files. Raises UsageError for a release
    without patches.
    """
    from kit.home import kit_home

    kit = deployment.kit
    known = catalog.product()
    chosen = plan(kit.engine.vllm, "auto", known, method=kit.speculative.method if kit.speculative else None)
    if not chosen.chosen:
        raise UsageError(f"there is nothing to prove: vLLM {kit.engine.vllm} has no patches", hint="kit patches list")
    source = fetch(kit.engine.vllm, wanted_files(known), kit_home() / "vllm-sources", say)
    return Bench(chosen, source.tree, in_container(deployment, say))


def in_container(deployment: Deployment, say: Callable[[str], None]) -> Stage:
    """The stage that starts containers of the twin's image."""
    from kit.engine import connect
    from kit.home import kit_home
    from kit.image.build import ensure
    from kit.image.load import for_deployment
    from kit.store.store import Store

    root = deployment.state / "proof"
    watcher = watcher_in(root)
    recipe_name = cpu_recipe(deployment.kit.engine.vllm)
    whole = written(root, cpu_twin(deployment.kit, "kimi-k2.5", recipe_name, port=free_port(), watcher=watcher))
    recipe = for_deployment(whole)
    engine = connect(say)
    image = ensure(recipe, engine, Store(kit_home() / "store"), say).reference
    site = f"/opt/venv/lib/python{recipe.python}/site-packages"

    def play(scenario: Scenario, texts: dict[str, str]) -> Seen:
        folder = root / f"{scenario.form}-{len(scenario.baked)}"
        (folder / "hidden").mkdir(parents=True, exist_ok=True)
        laid = {}
        for number, (path, text) in enumerate(sorted(texts.items())):
            laid[path] = (folder / f"{number}.py").absolute()
            files.write(laid[path], text)
        values = cpu_twin(deployment.kit, scenario.form, recipe_name, port=free_port(), watcher=watcher)
        small = written(folder, with_files(values, image, site, laid))
        with contextlib.closing(engine.client()) as client:
            began: Started | Died | None = None
            try:
                began = start(small, engine, client, image, lambda text: None, lambda: None)
                if isinstance(began, Died):
                    return failed(scenario, began.log, began.reason, began.seconds)
                healthy, cause = examined(small, say)
                return Seen(scenario, healthy, False, cause, began.seconds)
            finally:
                if began is not None:
                    down(small)

    return play
