"""docs/verified-on.md, from the results of the chain that are kept in tests/data/gpu.

python -m tests.gpu.page [RESULT.json...]  keep a new result, then write the page; several are parts of one round
python -m tests.gpu.page RESULT.json... LOGS  LOGS: a folder with what logs.tar.xz held; what logs say is read anew
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kit import files
from kit.logs import diagnose_file, to_json
from tests.gpu import cases as table
from tests.gpu.chain import figures

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests" / "data" / "gpu"
PAGE = ROOT / "docs" / "verified-on.md"
GIB = 1 << 30


def page(results: Iterable[dict[str, Any]]) -> str:
    """The page's text; the newest result first."""
    parts = [
        "# Verified on",
        "",
        "Generated from `tests/data/gpu/` by `python -m tests.gpu.page`; [tests/gpu](../tests/gpu/README.md) says how",
        "a round is run. Every deployment was started by `kit up` in a read-only container without capabilities, with",
        "the GPUs by CDI. An outcome marked * was expected only after a first run had shown it; one marked + is the",
        "kept log of that start, diagnosed by the kit as mended since.",
        "",
    ]
    for result in sorted(results, key=lambda r: (str(r["date"]), len(_gpus(r))), reverse=True):
        parts += _round(result)
    return "\n".join(parts).rstrip() + "\n"


def _round(result: dict[str, Any]) -> list[str]:
    machine, cases = result["machine"], result["cases"]
    found = (result.get("probe") or {}).get("found") or {}
    gpus, name = _gpus(result), _name(result)
    passed = sum(case["verdict"] == "pass" for case in cases)
    rows = [
        ("GPU", f"{len(gpus)} x {name}"),
        ("driver, CUDA", f"{found.get('driver', 'unknown')}, {found.get('cuda_driver', 'unknown')}"),
        ("container engine", machine["engine"]),
        ("inference engine", f"vLLM {result['vllm']}, PyTorch {machine.get('torch', 'unknown')}"),
        ("system", f"{machine['os']}, kernel {machine['kernel']}, Python {machine['python']}"),
        ("cases", f"{passed} of {len(cases)} as expected"),
    ]
    if result.get("sessions", 1) > 1:
        rows.append(("sessions", f"{result['sessions']}; what one showed wrong in the kit was mended before the next"))
    title = f"{f'{len(gpus)} x ' * (len(gpus) > 1)}{name}, {result['date']}"
    parts = [f"## {title}", "", *_table(["what", "which"], rows), ""]
    parts += _verbs(result)
    parts += _deployments([c for c in cases if not c["text"].startswith("fault") and not c.get("plan")])
    parts += _speed([c for c in cases if c.get("measured")])
    parts += _plans([c for c in cases if c.get("plan")])
    return parts + _faults([c for c in cases if c["text"].startswith("fault")])


def _gpus(result: dict[str, Any]) -> list[dict[str, Any]]:
    return ((result.get("probe") or {}).get("found") or {}).get("gpus") or [{}]


def _name(result: dict[str, Any]) -> str:
    return str(_gpus(result)[0].get("name", "unknown"))


def _verbs(result: dict[str, Any]) -> list[str]:
    parts = []
    for verb in ("probe", "doctor"):
        row = result.get(verb)
        if row:
            said = row["found"] or {}
            what = said.get("verdict") or f"{len(said.get('gpus', []))} GPU, {len(said.get('findings', []))} findings"
            parts.append(f"- `kit {verb}`: {what}, exit {row['exit']}, {row['seconds']} s")
    if links := result.get("links"):
        agree = [who for who, key in (("`nvidia-smi topo -m`", "as_nvidia_smi"), ("CUDA", "as_cuda")) if links[key]]
        way, rate = links["nvidia_smi"][0][1], links["cuda"]["gib_per_s"][0][1]
        said = f"the probe's matrix is that of {' and of '.join(agree)}" if agree else "nobody else says the same"
        parts.append(f"- GPU 0 to GPU 1: {way}, {rate} GiB/s copied; {said}")
    return [*parts, ""]


def _deployments(cases: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for case in cases:
        smoke = (case.get("report") or {}).get("smoke") or {}
        counted, wanted = "", ""
        if smoke.get("num_speculative_tokens"):
            counted = f"{smoke['num_accepted_tokens']} of {smoke['num_draft_tokens']}"
        if smoke.get("expected"):
            wanted = f"{smoke['expected']['num_accepted_tokens']} of {smoke['expected']['num_draft_tokens']}"
        ready = (case.get("report") or {}).get("ready_s")
        attention = (case.get("figures") or {}).get("attention", "")
        rows.append((case["text"], counted, wanted, attention, f"{ready:.0f} s" if ready else "", _outcome(case)))
    head = ["deployment", "accepted", "must be", "attention", "ready after", "outcome"]
    return ["### Deployments", "", *_table(head, rows), ""] if rows else []


def _speed(cases: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for case in cases:
        smoke = case["measured"]
        accepted = f"{smoke['acceptance_rate']:.0%}" if smoke["num_speculative_tokens"] else "no drafter"
        rows.append((case["text"], accepted, f"{smoke['ttft_s'] * 1000:.1f} ms", f"{smoke['tokens_per_s']:.0f}"))
    if not rows:
        return []
    note = (
        "One request at a time, nothing else at work on the card. Tiny reference models: only the ratios mean anything."
    )
    head = ["deployment", "acceptance", "time to first token", "tokens/s"]
    return ["### Speed with and without the drafter", "", note, "", *_table(head, rows), ""]


def _plans(cases: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for case in cases:
        rank, printed = case["plan"]["per_rank_bytes"], case.get("figures") or {}
        weights = (rank["target"] + rank["drafter"]) / GIB
        for name, planned, said in (
            ("weights, GiB", f"{weights:.2f}", printed.get("weights_gib", "")),
            ("KV cache, GiB", f"{rank['kv_cache'] / GIB:.2f}", printed.get("kv_cache_gib", "")),
            ("KV cache, tokens", f"{case['plan']['kv_tokens']:,}", printed.get("kv_cache_tokens", "")),
        ):
            rows.append((case["text"].split(",")[0], name, planned, said))
    head = ["deployment", "what", "`kit plan` before the start", "vLLM printed"]
    return ["### The memory plan", "", *_table(head, rows), ""] if rows else []


def _faults(cases: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for case in cases:
        root = ((case.get("report") or {}).get("diagnosis") or {}).get("root_cause") or {}
        rank = f" {root['rank']}" if root.get("rank") is not None else ""
        what = f"{root['category']}, {root['process']}{rank}, {root['stage']}" if root else "smoke test failed"
        before = (case.get("doctor") or {}).get("not_passed") or {}
        seen = ", ".join(name for name, said in before.items() if said.startswith("fail"))
        delay = case.get("delay_after_kill_s", case.get("delay_s"))
        rows.append(
            (
                case["text"].removeprefix("fault: "),
                str(case.get("up", "")),
                what,
                _code(root.get("exception", "")) or _one_line(root.get("summary", "")),
                "" if delay is None else f"{delay:.1f} s",
                ("refused: " if case.get("refused") else "") + seen,
                _outcome(case),
            )
        )
    head = [
        "fault",
        "exit of `kit up`",
        "diagnosis",
        "first cause",
        "known after",
        "`kit doctor` before the start",
        "outcome",
    ]
    note = (
        "Known after: from the line that shows the first cause (from the kill, where one was) to the printed diagnosis."
    )
    return ["### Faults", "", note, "", *_table(head, rows), ""] if rows else []


def _outcome(case: dict[str, Any]) -> str:
    if case["verdict"] != "pass":
        return "; ".join(_one_line(f) for f in case["faults"])
    return "as expected" + " *" * bool(case.get("learnt")) + " +" * bool(case.get("diagnosed_anew"))


def _code(text: str) -> str:
    line = _one_line(text).replace("`", "'")
    return f"`{line}`" if line else ""


def _one_line(text: str) -> str:
    line = re.sub(r"\s+", " ", text).strip()
    return line if len(line) <= 110 else line[:107] + "..."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def read_results() -> list[dict[str, Any]]:
    """Every result that is kept."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]


def without_addresses(text: str) -> str:
    """The text with every network address of the machine, loopback apart, replaced by one that belongs to nobody."""
    octet = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
    return re.sub(rf"(?<![\d.])(?!127\.|0\.0\.0\.0)(?:{octet}\.){{3}}{octet}(?![\d.])", "192.0.2.1", text)


def joined(parts: Sequence[dict[str, Any]], logs: Path | None = None) -> dict[str, Any]:
    """One result from the parts of a round; of a case that ran twice the last counts.

    What was found is held anew against what cases.yaml expects now; where that fails and the log is there, the log is
    diagnosed anew first.
    """
    known = {case.id: case for case in table.read().cases}
    rows = {row["id"]: row for part in parts for row in part["cases"] if row["id"] in known}
    for name, row in rows.items():
        case = known[name]
        row["text"] = case.text
        log = next(iter(sorted((logs / name).glob("*/container.log"), reverse=True)), None) if logs else None
        if log is not None:
            row["figures"] = figures(log.read_text(errors="replace"))
        row["faults"] = table.faults(case.expect, table.found(row))
        if row["faults"] and log is not None and (row["report"] or {}).get("diagnosis"):
            _diagnose_anew(row, log)
            row["faults"] = table.faults(case.expect, table.found(row))
        row["learnt"] = case.expect.learnt
        row["verdict"] = "fail" if row["faults"] else "pass"
    return parts[-1] | {"sessions": len(parts), "cases": [rows[name] for name in known if name in rows]}


def _diagnose_anew(row: dict[str, Any], log: Path) -> None:
    """Put what the kit makes of the log now in the place of what it made of it then."""
    diagnosis = to_json(diagnose_file(log))
    row["report"]["diagnosis_then"], row["report"]["diagnosis"] = row["report"]["diagnosis"], diagnosis
    line = (diagnosis["root_cause"] or {}).get("line")
    row["line"] = log.read_text(errors="replace").split("\n")[line - 1][:400] if line else ""
    row["diagnosed_anew"] = True


def main(args: list[str]) -> None:
    if args:
        logs = Path(args.pop()) if Path(args[-1]).is_dir() else None
        result = joined([json.loads(without_addresses(Path(name).read_text())) for name in args], logs)
        gpus = result["probe"]["found"]["gpus"]
        name = f"{len(gpus)}x-" * (len(gpus) > 1) + gpus[0]["name"].lower().replace(" ", "-")
        files.write(RESULTS / f"{result['date']}-{name}.json", json.dumps(result, indent=1) + "\n")
    files.write(PAGE, page(read_results()))


if __name__ == "__main__":
    main(sys.argv[1:])
