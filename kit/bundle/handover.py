"""HANDOVER.md: everything that an operator must know about one bundle, made from what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from kit.bundle.manifest import Manifest
from kit.bundle.qualification import Qualification
from kit.bundle.write import Data
from kit.config import Deployment
from kit.errors import EXIT_GOOD, FATAL_CLASSES
from kit.parse import json_of
from kit.render.quote import FILTERS, Safe, finalize

TEMPLATES = Path(__file__).with_name("templates")
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>|#"} | {"\n": " "})


def document(bundle: Manifest, deployment: Deployment, shown: Qualification, files: Mapping[str, Data]) -> bytes:
    """The handover document of a bundle. `shown` is the qualification, `files` what else is in the bundle."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown; `finalize` refuses whatever no filter quoted
    )
    env.filters.update(FILTERS, text=text)
    return env.get_template("HANDOVER.md.j2").render(variables(bundle, deployment, shown, files)).encode()


def text(value: Any) -> Safe:
    """Text of a Markdown paragraph or table cell: itself, never markup."""
    return Safe("".join(c if c.isprintable() else " " for c in str(value)).translate(_MARKDOWN))


def variables(
    bundle: Manifest, deployment: Deployment, shown: Qualification, files: Mapping[str, Data]
) -> dict[str, Any]:
    """What the template is filled with."""
    return {
        "bundle": bundle,
        "kit": deployment.kit,
        "figures": figures(shown.smoke) if shown.smoke else [],
        "gates": (shown.smoke or {}).get("gates", []),
        "ready_s": (shown.run or {}).get("ready_s"),
        "box": [check for check in (shown.doctor or {}).get("checks", []) if check.get("status") != "skip"],
        "doctor": (shown.doctor or {}).get("verdict"),
        "patches": _patches(files),
        "exit_codes": [(EXIT_GOOD, "all is well"), *((c.exit_code, c.meaning) for c in _by_code())],
        "needed": [value for value in bundle.site if value.needed],
        "folder": f"/opt/kit/{bundle.name}",
    }


def figures(smoke: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The smoke test's figures as rows of name and value."""
    rows = [("requests", str(smoke.get("requests", "?")))]
    if smoke.get("num_speculative_tokens"):
        rows += [
            ("draft tokens in each draft", str(smoke["num_speculative_tokens"])),
            ("accepted / draft tokens", f"{smoke.get('num_accepted_tokens')} / {smoke.get('num_draft_tokens')}"),
            ("acceptance rate", f"{smoke.get('acceptance_rate', 0):.1%}"),
            ("mean acceptance length", f"{smoke.get('mean_acceptance_length', 0):.2f}"),
            ("acceptance by position", ", ".join(f"{rate:.1%}" for rate in smoke.get("per_position", []))),
        ]
    if smoke.get("ttft_s") is not None:
        rows.append(("time to first token", f"{smoke['ttft_s'] * 1000:.0f} ms"))
    if smoke.get("tokens_per_s") is not None:
        rows.append(("output, one request at a time", f"{smoke['tokens_per_s']:.1f} tokens/s"))
    return rows


def _patches(files: Mapping[str, Data]) -> list[Mapping[str, Any]]:
    series = files.get("patches/series.json")
    return list(json_of(series)["patches"]) if isinstance(series, bytes) else []


def _by_code() -> list[Any]:
    return sorted(FATAL_CLASSES, key=lambda kind: kind.exit_code)
