"""Every colour of the report on every ground that it stands on, light, dark and printed (WCAG 2: 4.5 to 1)."""

import re
from pathlib import Path

import pytest

import kit.report.page

CSS = (Path(kit.report.page.__file__).parent / "style.css").read_text()
ROOTS = [dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)]
SCHEMES = dict(zip(("light", "dark", "print"), ROOTS, strict=True))


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_measure_itself() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_can_be_read(scheme: str) -> None:
    colours = SCHEMES[scheme]
    grounds = {
        "page": ("text", "quiet", "good", "bad", "warn", "accent"),
        "panel": ("text", "quiet", "good", "bad", "warn", "accent"),
        "marked": ("text",),
    }
    poor = {
        (name, ground): round(contrast(colours[name], colours[ground]), 2)
        for ground, names in grounds.items()
        for name in names
        if contrast(colours[name], colours[ground]) < 4.5
    }
    assert poor == {}


def test_names_inside_the_bars_can_be_read() -> None:
    fills = dict(re.findall(r"\.s-([\w-]+) \{ fill: (#\w{6}); \}", CSS))
    inside = re.search(r"svg \.inside \{ fill: (#\w{6});", CSS)
    assert inside and len(fills) >= 12
    assert {name for name, fill in fills.items() if contrast(inside[1], fill) < 4.5} == set()
