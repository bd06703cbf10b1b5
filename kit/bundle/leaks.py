"""What must not enter a bundle: secrets, and names of the machine and person that packed it.

Pure but for `of_machine`.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SECRET_NAME = re.compile(r"(?i)(token|secret|passw|credential|api[_-]?key|access[_-]?key|private[_-]?key)")
_COMMON = {"localhost", "root", "user", "admin", "kit", "vllm"}  # words that say nothing of a person or machine


@dataclass(frozen=True)
class Trace:
    """A text that would tell something: what it is, the text, what stands in its place in a report.

    `free` texts count wherever they stand; others only as a whole word.
    """

    what: str
    text: str
    instead: str
    free: bool = True

    @property
    def pattern(self) -> re.Pattern[str]:
        text = re.escape(self.text)
        return re.compile(text if self.free else rf"(?<![\w.-]){text}(?![\w-])")


def of_machine(folders: Mapping[str, Path]) -> list[Trace]:
    """The traces of this machine and user. `folders` maps a word for people to a path that should not be told."""
    host = socket.gethostname()
    user = getpass.getuser()
    paths = {**folders, "the home folder": Path.home()}
    found = [Trace(what, str(path), f"<{what}>") for what, path in paths.items() if len(path.parts) > 2]
    found += [Trace("the host name", name, "<host>", free=False) for name in {host, host.partition(".")[0]}]
    found.append(Trace("the user name", user, "<user>", free=False))
    kept = [trace for trace in found if trace.free or (len(trace.text) > 2 and trace.text.lower() not in _COMMON)]
    return sorted(kept, key=lambda trace: -len(trace.text))  # the longer first: a folder below the home folder


def redact(text: str, traces: Iterable[Trace]) -> str:
    """`text` with every trace replaced by what it is."""
    for trace in traces:
        text = trace.pattern.sub(trace.instead, text)
    return text


def find(files: Mapping[str, bytes], traces: Iterable[Trace], allowed: Sequence[str]) -> list[str]:
    """Where traces stand in text files: `name:line: what`. The text itself is not repeated."""
    faults = []
    wanted = [trace for trace in traces if trace.text not in allowed]
    for name, data in sorted(files.items()):
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            faults += [f"{name}:{number}: {trace.what}" for trace in wanted if trace.pattern.search(line)]
    return faults


def secret_settings(env: Mapping[str, str], args: Sequence[str]) -> list[str]:
    """Settings of kit.yaml that look like a secret: `engine.env.HF_TOKEN`. An empty value is none."""
    found = [f"engine.env.{name}" for name, value in env.items() if value and _SECRET_NAME.search(name)]
    for number, argument in enumerate(args):
        if argument.startswith("-") and _SECRET_NAME.search(argument) and "file" not in argument:
            found.append(f"engine.args[{number}]")
    return found
