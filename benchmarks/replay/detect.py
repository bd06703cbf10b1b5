"""How soon `kit up` noticed that starts had died: from the run folders that they left.

    python benchmarks/replay/detect.py .kit/NAME/runs [more folders of runs]

For each failed start: how the wait ended, the stage, the diagnosis, and the seconds between the arrival of the
first fatal line and the end of the wait (- where the process died without a word).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path


def failures(folder: Path) -> Iterator[tuple[str, str, str, str, str]]:
    """(run, kind, stage, category, delay in seconds) of each failed start below `folder`."""
    for path in sorted(folder.rglob("events.jsonl")):
        if path.parent.is_symlink():
            continue
        events = [json.loads(line) for line in path.read_text().splitlines()]
        failed = next((e for e in events if e["event"] == "failed"), None)
        if failed is None:
            continue
        stages = [e["stage"] for e in events if e["event"] == "stage" and e["process"] is None]
        root = json.loads((path.parent / "diagnosis.json").read_text())["root_cause"] or {}
        first = failed.get("first_fatal_at")
        delay = "-" if first is None else f"{failed['at'] - first:.2f}"
        yield path.parent.name, failed["kind"], (stages or ["boot"])[-1], root.get("category", "-"), delay


def main() -> None:
    print(f"{'run':<22}{'end':<11}{'stage':<12}{'diagnosis':<24}seconds after the first fatal line")
    for folder in sys.argv[1:]:
        for run, kind, stage, category, delay in failures(Path(folder)):
            print(f"{run:<22}{kind:<11}{stage:<12}{category:<24}{delay}")


if __name__ == "__main__":
    main()
