"""How fast every byte of a model is verified, beside how fast the same files can only be read. Claim: as fast as the
disk, as long as there are cores for it (one core hashes 1 to 2 GB/s where the processor has SHA instructions).

Run from the project's root: python -m benchmarks.model_verify [FOLDER]; without one it makes 4 files of 512 MiB.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from kit.model.manifest import list_files, make_manifest, verify

FILES, MIB = 4, 512


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else made(Path(scratch) / "model")
        total = sum(list_files(folder).values())
        start = time.perf_counter()
        for name in list_files(folder):
            with (folder / name).open("rb", buffering=0) as handle:
                block = bytearray(4 << 20)
                while handle.readinto(block):
                    pass
        read = time.perf_counter() - start
        journal = Path(scratch) / "journal.jsonl"
        manifest = make_manifest(folder, journal, lambda count: None)
        start, busy = time.perf_counter(), time.process_time()
        differences = verify(folder, manifest, journal, lambda count: None)
        seconds, cpu = time.perf_counter() - start, time.process_time() - busy
        print(
            json.dumps({
                "gb": round(total / 1e9, 2),
                "read_gb_per_s": round(total / 1e9 / read, 2),
                "verify_gb_per_s": round(total / 1e9 / seconds, 2),
                "verify_gb_per_cpu_s": round(total / 1e9 / cpu, 2),
                "cores": os.cpu_count(),
                "differences": len(differences),
            })
        )  # fmt: skip


def made(folder: Path) -> Path:
    folder.mkdir()
    for number in range(FILES):
        with (folder / f"{number}.bin").open("wb") as handle:
            for _ in range(MIB):
                handle.write(os.urandom(1 << 20))
    return folder


if __name__ == "__main__":
    main()
