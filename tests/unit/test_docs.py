"""Generated pages are fresh."""

from pathlib import Path

import pytest

from kit.docs import PAGES, page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_fresh(name: str) -> None:
    assert (DOCS / name).read_text() == page(name), "run: make docs"
