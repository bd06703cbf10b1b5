"""The switch from one release to another: it happened, or it did not; interrupted anywhere, the next run ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kit.bundle.manifest import Image, Manifest
from kit.bundle.releases import Pending, Releases
from kit.bundle.verify import Verified
from kit.errors import EngineFailed, GateError, IntegrityError, KitError, MissingError, UsageError

Say = Callable[[str], None]


class Box(Protocol):
    """What a switch needs of the machine; releases are named by their folder's name."""

    def has_image(self, image: Image) -> bool:
        """Whether the engine has this very image under its name."""
        ...

    def load(self, verified: Verified) -> None:
        """Load the image of a verified bundle into the engine. Raises MissingError, IntegrityError."""
        ...

    def prepare(self, verified: Verified, folder: str) -> None:
        """Make a release runnable: the kit and all it needs, from the bundle alone. Whole or not at all."""
        ...

    def is_prepared(self, release: str) -> bool:
        """Whether the kit of an installed release runs."""
        ...

    def doctor(self, release: str) -> int:
        """Run the doctor of a release; returns its exit code."""
        ...

    def is_up(self, release: str) -> bool:
        """Whether the service of a release runs."""
        ...

    def start(self, release: str) -> int:
        """Start the service of a release and run the smoke test; returns the exit code of `kit up`."""
        ...

    def stop(self, release: str) -> None:
        """Stop the service of a release, if it runs."""
        ...

    def clear(self, release: str, name: str) -> None:
        """Remove the stopped container and the cache volumes of a release of deployment `name`."""
        ...

    def remove_image(self, image: Image) -> bool:
        """Remove this very image from the engine; false where it has none or a container still needs it."""
        ...


def switch(releases: Releases, box: Box, target: str, say: Say, *, remember: bool) -> None:
    """Stop what runs, start `target`, and make it current once it passed; else start again what ran.

    Raises the error of what failed, saying what runs now.
    """
    current, pending = releases.current, releases.pending
    was_up = pending.was_up if pending else current is not None and box.is_up(current)
    releases.begin(Pending(target, was_up))
    for other in sorted({current, pending.to if pending else None} - {None, target}, key=str):
        if other is not None and releases.is_installed(other):
            say(f"stopping {other}")
            box.stop(other)
    say(f"starting {target}")
    code = box.start(target)
    if code != 0:
        box.stop(target)
        back = None
        if was_up and current is not None and current != target:
            say(f"{target} did not pass; starting {current} again")
            back = box.start(current)
        releases.end()
        raise failed(code, target, current, back)
    releases.make_current(target, remember=remember)
    releases.end()


def rollback(releases: Releases, box: Box, to: str | None, say: Say) -> tuple[str | None, str]:
    """Return to the previous release, or to `to`; after an interrupted switch, to the current one.

    Returns (release before, release now). Called under the lock of `releases`.
    """
    before, pending = releases.current, releases.pending
    target = to if to is not None else _target(releases, before, pending)
    found = releases.manifest(target)
    releases.check(target)
    if not box.has_image(found.image):
        raise MissingError(
            f"the engine no longer has the image of {target}", hint="install its bundle again: sh install.sh KEY"
        )
    if pending and pending.to != target:
        say(f"an interrupted switch to {pending.to} is taken back")
    switch(releases, box, target, say, remember=False)
    return before, target


def _target(releases: Releases, current: str | None, pending: Pending | None) -> str:
    if current is None:
        raise UsageError("no release is current here, so there is none to go back from", hint="kit bundle list")
    if pending is not None:
        return current
    previous = releases.previous(current)
    if previous is None:
        raise UsageError(
            f"{current} took the place of no release that is still here",
            hint="kit bundle list; kit bundle rollback --release NAME",
        )
    return previous


def doctor_or_raise(box: Box, release: str) -> None:
    """Raise unless the doctor lets this release start."""
    if (code := box.doctor(release)) != 0:
        raise _error_of(code)(
            f"the doctor says that {release} will not run here; nothing was stopped or started",
            hint="mend what it names, then run this again",
        )


def check_image(box: Box, found: Manifest) -> None:
    """Raise IntegrityError unless the engine holds the very image that was qualified."""
    if not box.has_image(found.image):
        raise IntegrityError(
            f"the image {found.image.reference} is not in the engine after it was loaded", hint="kit engine status"
        )


def failed(code: int, target: str, current: str | None, back: int | None) -> KitError:
    """The error for a release that did not start or pass."""
    now = f"{current} runs again" if back == 0 else "nothing runs now"
    if back not in (None, 0):
        now = f"and {current} did not start again either (exit code {back})"
    return _error_of(code)(
        f"{target} did not pass (exit code {code}); {now}",
        hint=f"releases/{target}/kit diagnose says why; mend it, then run this again",
    )


def _error_of(code: int) -> type[KitError]:
    kinds = (GateError, EngineFailed, MissingError, IntegrityError, UsageError)
    return next((kind for kind in kinds if kind.exit_code == code), KitError)
