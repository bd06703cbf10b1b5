"""Where the templates and image recipes that come with the kit lie: a checkout or an installed wheel."""

from __future__ import annotations

from pathlib import Path

from kit.errors import KitError


def folder(name: str) -> Path:
    """The folder `templates` or `images` that belongs to this kit. Raises KitError when it is gone."""
    here = Path(__file__).resolve().parent
    for path in (here.parent / name, here / "_data" / name):
        if path.is_dir():
            return path
    raise KitError(f"the kit's own folder {name!r} is missing beside {here}", hint="install the kit again")
