"""docs/verified-on.md is what the kept results say, and names no address of a machine."""

import json

from tests.gpu import page as pages
from tests.gpu.page import PAGE, RESULTS, joined, page, read_results, without_addresses


def test_the_page_is_fresh():
    assert PAGE.read_text() == page(read_results())


def test_addresses_are_replaced_and_versions_are_not():
    text = "tcp://172.16.0.2:80 127.0.0.1 0.0.0.0 vLLM 0.25.1 driver 580.159.04 nvml 13.580.159.04"
    assert without_addresses(text) == text.replace("172.16.0.2", "192.0.2.1")


def test_a_log_is_diagnosed_anew_only_where_the_case_failed_and_is_marked(tmp_path):
    kept = json.loads((RESULTS / "2026-11-29-2x-nvidia-h200.json").read_text())
    rows = {row["id"]: row for row in kept["cases"]}
    wrong, right = rows["pair-memory-busy"], rows["pair-shm-tiny"]
    wrong["report"]["diagnosis"]["root_cause"]["rank"] = None
    data = PAGE.parents[1] / "tests/data/logs/gpu"
    for row, name in ((wrong, "h200x2_memory_busy_1"), (right, "h200x2_shm_tiny")):
        (tmp_path / row["id"] / "1").mkdir(parents=True)
        (tmp_path / row["id"] / "1" / "container.log").write_bytes((data / f"{name}.log").read_bytes())
    made = {row["id"]: row for row in joined([kept | {"cases": [wrong, right]}], tmp_path)["cases"]}
    assert made["pair-memory-busy"]["verdict"] == "pass" and made["pair-memory-busy"]["diagnosed_anew"]
    assert made["pair-memory-busy"]["report"]["diagnosis_then"]["root_cause"]["rank"] is None
    assert "diagnosed_anew" not in made["pair-shm-tiny"]
    assert pages._outcome(made["pair-memory-busy"]) == "as expected +"
