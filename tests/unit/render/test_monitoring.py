"""The rendered monitoring files: valid, about metrics that vLLM prints, for this deployment alone."""

import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "data" / "golden"
METRICS = (ROOT / "tests" / "data" / "watch" / "metric-names-0.32.0.txt").read_text()


def expressions(name: str) -> list[str]:
    dashboard = json.loads((GOLDEN / name / "monitoring" / "grafana-dashboard.json").read_text())
    rules = yaml.safe_load((GOLDEN / name / "monitoring" / "alerts.yml").read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return found + [rule["expr"] for rule in rules["groups"][0]["rules"]]


@pytest.mark.parametrize("name", ["embedded", "kimi-k2-5", "llama-8b"])
def test_every_metric_is_one_that_the_engine_prints(name: str) -> None:
    known = set(METRICS.split())
    used = {metric for expression in expressions(name) for metric in re.findall(r"vllm:\w+", expression)}
    assert len(used) > 10 and used <= known


@pytest.mark.parametrize("name", ["embedded", "kimi-k2-5", "llama-8b"])
def test_panels_do_not_overlap_and_each_query_asks_for_this_deployment(name: str) -> None:
    dashboard = json.loads((GOLDEN / name / "monitoring" / "grafana-dashboard.json").read_text())
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard["panels"]]
    assert len(set(places)) == len(places) == len({p["id"] for p in dashboard["panels"]})
    assert all(f'deployment="{name}"' in e or e.startswith("vector(") for e in expressions(name))


def test_the_scrape_file_names_address_and_rules() -> None:
    config = yaml.safe_load((GOLDEN / "kimi-k2-5" / "monitoring" / "prometheus.yml").read_text())
    job = config["scrape_configs"][0]
    assert config["rule_files"] == ["alerts.yml"]
    assert (job["metrics_path"], job["static_configs"][0]["targets"]) == ("/metrics", ["127.0.0.1:8000"])


def test_gates_become_alerts_and_lines() -> None:
    rules = yaml.safe_load((GOLDEN / "kimi-k2-5" / "monitoring" / "alerts.yml").read_text())["groups"][0]["rules"]
    low = next(rule for rule in rules if rule["alert"] == "VllmAcceptanceLow")
    assert " < 0.2 and " in low["expr"]
    assert "vector(0.2)" in expressions("kimi-k2-5") and "vector(2.0)" in expressions("kimi-k2-5")
