"""How long `kit image build` takes beside plain `docker buildx build` of the same Dockerfile and context. Limit: 1.4.

Run from the project's root: python -m benchmarks.build KIT_YAML [--uncompressed]
Both build without BuildKit's cache on the engine in use; every input is in the store before. The kit's time is that
of the whole command: staging and checking every input, the build, and the identity of what came out. It keeps layers
uncompressed; the plain build does what it does by default (gzip), or with --uncompressed the same as the kit.
The base system, which plain buildx is handed ready-made, is in the kit's cache; making it is shown by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PLAIN = "kit-benchmark/plain:1"


def timed(work: Callable[[], object]) -> float:
    """Seconds of wall clock that `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    done = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command[:4]))}: exit code {done.returncode}\n{done.stderr[-2000:]}")


def main() -> None:
    import os

    from kit.config import load
    from kit.engine import connect
    from kit.image import build
    from kit.image.base import base_tar
    from kit.image.load import for_deployment
    from kit.store.store import Store

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--uncompressed", action="store_true", help="the plain build keeps layers uncompressed, too")
    chosen = parser.parse_args()

    recipe, engine, store = for_deployment(load(chosen.file)), connect(), Store.default()
    build.fetch(recipe, store, print)
    base = base_tar(recipe.base, store, print)
    kit = timed(lambda: run(sys.executable, "-m", "kit", "image", "build", "-f", chosen.file, "--again"))
    to = f"type=image,name={PLAIN},unpack=true" + (",compression=uncompressed" if chosen.uncompressed else "")
    if not engine.containerd_store:
        to = f"type=docker,name={PLAIN}"
    try:
        with build.staged(recipe, base, store) as folder:
            plain = timed(
                lambda: run(
                    *engine.cli("buildx", "build", "--no-cache", "--progress=plain", f"--output={to}"),
                    f"--build-context=wheels={folder / 'wheels'}",
                    folder / "context",
                    env=os.environ | engine.environment,
                )
            )
    finally:
        with contextlib.closing(engine.client(timeout=600)) as client, contextlib.suppress(Exception):
            client.images.remove(PLAIN)
    made = timed(lambda: base_tar(recipe.base, store, print, again=True))
    how = "layers uncompressed" if chosen.uncompressed else "default compression"
    print(f"{recipe.reference}\nkit image build --again  {kit:6.1f} s\ndocker buildx build      {plain:6.1f} s ({how})")
    print(f"ratio {kit / plain:.2f}; making the base besides: {made:.1f} s, {(kit + made) / plain:.2f} with it")


if __name__ == "__main__":
    main()
