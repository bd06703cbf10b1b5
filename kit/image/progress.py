"""Reads what `docker buildx build --progress=plain` prints: stages for people, and the cause when it fails."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from kit.errors import GateError, IntegrityError, KitError, MissingError

Say = Callable[[str], None]


def silent(text: str) -> None:
    """A place for talk that nobody asked for."""


# a part of BuildKit's line -> what it means here
_STAGES = (
    ("load build context", "handing the inputs to the engine"),
    ("ADD base.tar", "base system"),
    ("from=wheels", "installing the wheels"),
    ("source=patches", "patches, then bytecode"),
    ("exporting layers", "packing layers"),
    ("unpacking to", "unpacking"),
)
_STEP = re.compile(r"#(\d+) (?:\[[^\]]*\] )?(.*)")


class BuildProgress:
    """Says each stage once as it begins, with the time since the build's start; every line goes to `detail`."""

    def __init__(self, say: Say, detail: Say):
        self._say, self._detail = say, detail
        self._began = time.monotonic()
        self._said: set[str] = set()

    def line(self, text: str) -> None:
        """Take one line of BuildKit's plain progress."""
        self._detail(text)
        stage = stage_of(text)
        if stage and stage not in self._said:
            self._said.add(stage)
            self._say(f"image: [{time.monotonic() - self._began:4.0f} s] {stage}")


def stage_of(text: str) -> str | None:
    """The stage whose beginning a line tells; None for every other line."""
    if not _STEP.match(text) or " DONE " in text or text.endswith("CACHED"):
        return None
    return next((name for part, name in _STAGES if part in text), None)


def explain(lines: Sequence[str], data_root: str) -> KitError:
    """The error for a failed build, from the last lines that it printed."""
    text = "\n".join(lines)
    said = [re.sub(r"^#\d+ [\d.]+ ", "", line) for line in lines if re.match(r"#\d+ [\d.]+ \S", line)][-12:]
    evidence = said or [line for line in lines if line.strip()][-8:]
    if "no space left on device" in text.lower():  # Go's words, and C's
        return MissingError(
            "the disk of the Docker engine filled up during the build",
            hint=f"df -h {data_root}; free some (docker builder prune), then run this again",
            evidence=evidence[-3:],
        )
    code = re.search(r"did not complete successfully: exit code: (\d+)", text)
    if "DO NOT MATCH THE HASHES" in text or (code and code[1] == "6"):
        return IntegrityError("an input of the image is not the one that was locked", evidence=evidence)
    if code and code[1] == "3":
        return GateError("a patch did not prove itself during the build", hint="kit patches check", evidence=evidence)
    return KitError("the image build failed", hint="run it again with -v to see all of its output", evidence=evidence)
