"""`kit bundle remove`: take old releases off a machine; interrupted anywhere, the next removal ends it.

A release is first renamed aside: from then on it is no release any more. Then what it left in the
engine goes, then its files.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from kit import files
from kit.bundle import manifest, names
from kit.bundle.manifest import Image
from kit.bundle.releases import Releases
from kit.bundle.switch import Box, Say
from kit.errors import IntegrityError, MissingError, UsageError


@dataclass(frozen=True)
class Removed:
    """What went: releases, and references of images."""

    releases: tuple[str, ...]
    images: tuple[str, ...]


def outdated(releases: Releases, keep: int) -> list[str]:
    """All but the `keep` releases that were last put there or current; never one that `why_not` protects."""
    found = [release for release in releases.installed() if why_not(releases, release) is None]
    return found[: max(0, len(releases.installed()) - max(keep, 1))]


def why_not(releases: Releases, release: str) -> str | None:
    """Why a release must stay; None when it may go."""
    current, pending = releases.current, releases.pending
    if release == current:
        return "it is the current release"
    if current is not None and release == releases.previous(current):
        return "it is the one that a rollback returns to"
    if pending is not None and release == pending.to:
        return "a switch to it was interrupted"
    return None


def remove(releases: Releases, box: Box, chosen: Sequence[str], say: Say, *, images: bool = True) -> Removed:
    """Remove releases with their logs, caches and, unless another release has it too or `images` is false, image.

    Ends also what an earlier removal had begun. Called under the lock of `releases`. Raises UsageError for a
    release that must stay, MissingError for one that is not there; then nothing was removed.
    """
    for release in chosen:
        if releases.is_put_aside(release):
            continue
        releases.manifest(release)
        why = why_not(releases, release)
        if why is None and box.is_up(release):
            why = "its service runs"
        if why is not None:
            raise UsageError(f"{release} stays: {why}", hint=f"kit bundle list --in {releases.root}")
    try:
        for release in chosen:
            if not releases.is_put_aside(release):
                releases.put_aside(release)
        gone = []
        for release in releases.put_aside_before():
            if (image := _clear(releases, box, release, images=images)) is not None:
                gone.append(image)
            say(f"removed {release}")
            shutil.rmtree(releases.aside(release))
    except OSError as error:
        raise files.no_write(releases.root, error) from None
    return Removed(tuple(dict.fromkeys(chosen)), tuple(gone))


def _clear(releases: Releases, box: Box, release: str, *, images: bool) -> str | None:
    """Take out of the engine what a release that was put aside left there; the image's name where that went."""
    try:
        found = manifest.load((releases.aside(release) / names.MANIFEST).read_bytes())
    except (FileNotFoundError, IntegrityError):  # a removal that was killed among its last files
        return None
    box.clear(release, found.name)
    if not images or found.image in _images(releases):
        return None
    return found.image.reference if box.remove_image(found.image) else None


def _images(releases: Releases) -> list[Image]:
    """The images of the installed releases."""
    kept = []
    for release in releases.installed():
        try:
            kept.append(releases.manifest(release).image)
        except (IntegrityError, MissingError):
            continue
    return kept
