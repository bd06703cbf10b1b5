"""The generated pages of docs/: each is made from the registry or models it describes.

A new generated page is a new line in PAGES. `python -m kit.docs` (make docs) writes them all; the
tests fail while one is stale.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from kit import files
from kit.errors import EXIT_GOOD, FATAL_CLASSES

# page -> "module:function" that returns its text
PAGES = {
    "watching.md": "kit.watch.pages:watching_page",
    "kit-yaml.md": "kit.config.show:reference_page",
    "diagnose.md": "kit.logs.page:diagnose_page",
    "exit-codes.md": "kit.docs:exit_codes_page",
    "patches.md": "kit.patches.page:patches_page",
    "checks.md": "kit.checks.show:reference_page",
}


def page(name: str) -> str:
    """The text of one generated page."""
    module, function = PAGES[name].split(":")
    make: Callable[[], str] = getattr(importlib.import_module(module), function)
    return make()


def exit_codes_page() -> str:
    """docs/exit-codes.md, from kit/errors.py."""
    lines = [
        "# Exit codes",
        "",
        "Generated from `kit/errors.py`; `make docs` writes it anew. The code is the same with and",
    ]
    lines += [
        "without `--json`.",
        "",
        "| code | class | meaning |",
        "| --- | --- | --- |",
        f"| {EXIT_GOOD} | | all is well |",
    ]
    lines += [
        f"| {c.exit_code} | `{c.__name__}` | {c.meaning} |" for c in sorted(FATAL_CLASSES, key=lambda c: c.exit_code)
    ]
    return "\n".join(lines) + "\n"


def write_all(folder: Path) -> None:
    """Write every page into `folder`."""
    for name in PAGES:
        files.write(folder / name, page(name))


if __name__ == "__main__":
    write_all(Path(__file__).resolve().parent.parent / "docs")
