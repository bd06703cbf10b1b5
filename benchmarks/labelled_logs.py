"""Scores the diagnoser on labelled logs, and measures what its confidence is worth.

usage: python -m benchmarks.labelled_logs [FOLDER...] [--show] [--confusion] [--calibrate]

A FOLDER holds logs and truth.jsonl (tests/data/logs/README.md). Over failures it counts whether the root (line, or
marker in the exception), the process and the category are right, over healthy logs false alarms; then the root again
with all rules of the right category left out. `--calibrate` prints the table of kit/logs/confidence.py.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.logs import causes
from kit.logs.confidence import key
from kit.logs.diagnose import conclude, read_file
from kit.logs.model import Diagnosis
from kit.logs.rules import Rule, load

DATA = Path(__file__).parents[1] / "tests" / "data" / "logs"


@dataclass(frozen=True)
class Labelled:
    """One log and its truth."""

    path: Path
    truth: dict[str, Any]

    @property
    def healthy(self) -> bool:
        return bool(self.truth["verdict"] == "healthy")

    def wanted(self, field: str) -> list[Any]:
        value = self.truth.get(field)
        return value if isinstance(value, list) else [value]


@dataclass(frozen=True)
class Answer:
    """Whether the diagnosis of one log is right, part by part."""

    log: Labelled
    diagnosis: Diagnosis
    root: bool
    process: bool
    category: bool


def logs(folders: Iterable[Path]) -> list[Labelled]:
    """Every labelled log of the folders."""
    return [
        Labelled(folder / truth["log"], truth)
        for folder in folders
        for truth in map(json.loads, filter(str.strip, (folder / "truth.jsonl").read_text().splitlines()))
    ]


def judge(log: Labelled, rules: Sequence[Rule]) -> Answer:
    """Diagnose one log and compare."""
    diagnosis = conclude(read_file(log.path, rules), rules)
    root, marker, line = diagnosis.root_cause, log.truth.get("root_marker"), log.truth.get("root_line")
    if root is None:
        return Answer(log, diagnosis, False, False, False)
    process = root.process in log.wanted("process")
    if line is None and not marker:
        right = process
    else:
        right = (line is not None and root.line in log.wanted("root_line")) or bool(marker and marker in root.exception)
    category = log.truth.get("category") is None or root.category in log.wanted("category")
    return Answer(log, diagnosis, right, process, category)


def without(rules: Sequence[Rule], log: Labelled) -> list[Rule]:
    """The rules but those of the log's own category."""
    return [rule for rule in rules if rule.category not in log.wanted("category")]


def calibration(labelled: Sequence[Labelled], rules: Sequence[Rule]) -> dict[tuple[str, int | None], float]:
    """The smoothed share of right answers for each way of finding a cause.

    Right is a root and a category that are; of an answer without a category, the root alone. Each log is answered
    twice: with all rules, and without those of its category, as a failure that nobody wrote a rule for.
    """
    right: Counter[tuple[str, int | None]] = Counter()
    seen: Counter[tuple[str, int | None]] = Counter()
    for log in labelled:
        if log.healthy or log.truth.get("category") is None:
            continue
        for chosen in (rules, without(rules, log)):
            cause = causes.find(read_file(log.path, chosen).run, chosen)
            if cause is not None:
                answer = judge(log, chosen)
                seen[key(cause)] += 1
                right[key(cause)] += answer.root and (answer.category or cause.rule is None)
    return {k: (right[k] + 1) / (n + 2) for k, n in sorted(seen.items(), key=str)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=Path, default=[f.parent for f in sorted(DATA.glob("*/truth.jsonl"))])
    for flag in ("--show", "--confusion", "--calibrate"):
        parser.add_argument(flag, action="store_true")
    asked = parser.parse_args()
    rules = load()
    labelled = logs(asked.folders)
    answers = [judge(log, rules) for log in labelled]
    failed = [a for a in answers if not a.log.healthy]
    alarms = [a for a in answers if a.log.healthy and a.diagnosis.verdict != "healthy"]
    for name in ("root", "process", "category"):
        hits = sum(getattr(a, name) for a in failed)
        print(f"{name:9} {hits / len(failed):6.1%}  {hits} of {len(failed)}")
    print(f"alarms    {len(alarms)} of {len(answers) - len(failed)} healthy logs")
    out = [judge(a.log, without(rules, a.log)) for a in failed if a.log.truth.get("category")]
    print(f"root, rules of the category left out: {sum(a.root for a in out) / len(out):.1%}  of {len(out)}")
    if asked.show:
        for a in [*alarms, *(a for a in failed if not (a.root and a.process and a.category))]:
            root = a.diagnosis.root_cause
            print(
                a.log.path.name,
                a.log.truth["category"],
                "->",
                root and (root.category, root.process, root.line, root.rule),
            )
    if asked.confusion:
        table: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for a in failed:
            root = a.diagnosis.root_cause
            found = root.category if root else "healthy"
            wanted = a.log.wanted("category")
            table[found if found in wanted else str(wanted[0])][found] += 1
        for wanted_one, found_ones in sorted(table.items()):
            print(f"{wanted_one:24} {dict(found_ones)}")
    if asked.calibrate:
        for k, share in calibration(labelled, rules).items():
            print(f"    {k}: {share:.2f},")


if __name__ == "__main__":
    main()
