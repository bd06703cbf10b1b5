"""How fast a bundle is packed and verified, against the plain tools on the same bytes. Limits: 0.8 of them, 200 MB.

Run from the project's root: python -m benchmarks.bundle IMAGE FOLDER
IMAGE is an image of the engine (`kit image list`), FOLDER scratch space for about twice its size.
`zstd -3 -T0` compresses the same archive to a file there; `sha256sum` reads the packed bundle's files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEASURE = """
import json, resource, sys, time
from datetime import UTC, datetime
from pathlib import Path
start, busy = time.perf_counter(), time.process_time()
from kit.bundle import images, manifest, verify, write
from kit.bundle.stored import open_bundle
step, archive, folder, reference = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
if step == "pack":
    image = images.canonical(images.read_archive(archive), reference)
    of_image = manifest.Image(reference=reference, config=image.image.config_digest, manifest=image.manifest_digest,
                              layers=list(image.image.diff_ids), size=image.size)
    described = manifest.Manifest(name="x", release="x", kit="0", vllm="0.0.0", device="cpu", epoch=0, python=[],
                                  image=of_image, qualified=False, sources=False)
    write.write_bundle(write.FolderTarget(folder), {}, image, lambda: {"bundle.json": described.to_bytes()}, None)
else:
    verify.verify(open_bundle(folder), None, now=datetime.now(UTC))
print(json.dumps({"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - busy,
                  "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}))
"""


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of wall clock and of child processes' CPU that `work` takes."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    work()
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tool(*command: str | Path, cwd: Path) -> tuple[float, float]:
    return timed(
        lambda: subprocess.run([str(part) for part in command], cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    )


def ours(step: str, archive: Path, folder: Path, reference: str) -> dict[str, Any]:
    command = [sys.executable, "-c", MEASURE, step, str(archive), str(folder), reference]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def archive_of(reference: str, path: Path) -> None:
    """Write the canonical archive of an image to a file: the bytes that both sides compress."""
    from kit.bundle import images, source
    from kit.engine import connect

    engine = connect()
    with contextlib.closing(engine.client()) as client:
        opened = source.opened(client, Path(engine.data_root), reference, path.parent, print)
        with opened as image, path.open("wb") as handle:
            for chunk in images.canonical(image, reference).stream():
                handle.write(chunk)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    work = chosen.folder / "kit-benchmark"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        archive, packed = work / "image.tar", work / "packed"
        archive_of(chosen.image, archive)
        print(f"{chosen.image}: {archive.stat().st_size / 1e9:.2f} GB")
        for _ in range(chosen.rounds):
            compared(archive, packed, work, chosen.image)
    finally:
        shutil.rmtree(work)


def compared(archive: Path, packed: Path, work: Path, reference: str) -> None:
    """One round: the plain tool, then the kit, for each of the two steps."""
    plain = tool("zstd", "-3", "-T0", "-q", "-f", archive, "-o", work / "plain.zst", cwd=work)
    (work / "plain.zst").unlink()
    show("pack", "zstd -3 -T0", plain, ours("pack", archive, packed, reference))
    plain = tool("sha256sum", "-c", "--quiet", "SHA256SUMS", cwd=packed)
    show("verify", "sha256sum", plain, ours("verify", archive, packed, reference))


def show(step: str, name: str, plain: tuple[float, float], found: dict[str, Any]) -> None:
    print(
        f"{step:7} {name} {plain[0]:6.2f} s (CPU {plain[1]:5.2f} s)   kit {found['seconds']:6.2f} s "
        f"(CPU {found['cpu_seconds']:5.2f} s, {found['peak_mb']:3.0f} MB)   {plain[0] / found['seconds']:.2f} of it, "
        f"by CPU {plain[1] / found['cpu_seconds']:.2f}"
    )


if __name__ == "__main__":
    main()
