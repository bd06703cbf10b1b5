"""All rules over one snapshot. Pure."""

from __future__ import annotations

from kit.gpu import rules_cards, rules_driver, rules_links
from kit.gpu.findings import Expected, Finding
from kit.gpu.snapshot import Snapshot


def judge(snapshot: Snapshot, expected: Expected | None = None) -> list[Finding]:
    """Every fault in this snapshot, the graver first; none on a sound box."""
    wanted = expected or Expected()
    found = [
        f for rule in (*rules_driver.RULES, *rules_cards.RULES, *rules_links.RULES) for f in rule(snapshot, wanted)
    ]
    return sorted(found, key=lambda finding: finding.level != "fail")
