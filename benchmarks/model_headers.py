"""How long the facts of a model of Kimi-K2.5's size take: 64 shards, 208,000 tensors. Limits: 2 s and 200 MB.

Run from the project's root: python -m benchmarks.model_headers
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.unit.model.synthetic import kimi_config, kimi_tensors, write_model

MEASURE = """
import json, resource, sys, time
from pathlib import Path
start, busy = time.perf_counter(), time.process_time()
from kit.model import judge_target, read_folder
facts = judge_target(read_folder(Path(sys.argv[1])))
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
print(json.dumps({
    "seconds": round(seconds, 2), "cpu_seconds": round(time.process_time() - busy, 2), "peak_mb": round(peak),
    "described_gb": round(facts.weights.nbytes / 1e9), "tensors": len(facts.weights.tensors),
    "findings": [finding.found for finding in facts.findings],
}))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = kimi_config()
        write_model(Path(folder), config, kimi_tensors(config), 64)
        for _ in range(3):
            found = subprocess.run([sys.executable, "-c", MEASURE, folder], capture_output=True, text=True, check=True)
            print(json.dumps(json.loads(found.stdout)))


if __name__ == "__main__":
    main()
