"""One start of the server, as the log shows it: what each process did, and everything that went wrong."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from kit.logs.acceptance import Acceptance
from kit.logs.model import Failure, Line

_MOST_FATAL = 300
_MOST_OTHERS = 100
_MOST_NOTICES = 400
_EARLY_NOTICES = 64
_LONGEST_NOTICE = 2000
_KEPT_FATAL = 24
_KEPT_OTHERS = 8


@dataclass(slots=True)
class Run:
    """One start of the server and all that followed until the next."""

    number: int
    first_line: int
    last_line: int = 0
    version: str | None = None
    arguments: str = ""
    banner_pid: int | None = None
    has_banner: bool = False
    banner_line: int = 0
    versions: int = 0
    engine_up: bool = False
    ready: int | None = None
    served: int | None = None
    stopping: int | None = None
    told: int | None = None
    stopped: int | None = None
    over: bool = False
    stage: str = "config"
    stages: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    notices: deque[Line] = field(default_factory=lambda: deque(maxlen=_MOST_NOTICES))
    early_notices: list[Line] = field(default_factory=list)
    hang_first: Line | None = None
    hang_count: int = 0
    before_hang: Line | None = None
    last_work: Line | None = None
    exit_codes: list[tuple[int, str, int]] = field(default_factory=list)
    acceptance: Acceptance = field(default_factory=Acceptance)
    roles: dict[str, Line] = field(default_factory=dict)
    last_lines: deque[Line] = field(default_factory=lambda: deque(maxlen=6))
    gap: bool = False
    alive: int | None = None

    def context(self) -> str:
        """The notable lines of the run, as one text for rules to look into."""
        return "\n".join(
            [self.arguments, *(n.text[:400] for n in self.early_notices), *(n.text[:400] for n in self.notices)]
        )

    def note(self, line: Line) -> None:
        """Keep a notable line: the first ones and the last ones of the run."""
        line = replace(line, text=line.text[:_LONGEST_NOTICE])
        if len(self.early_notices) < _EARLY_NOTICES:
            self.early_notices.append(line)
        else:
            self.notices.append(line)

    def shrink(self) -> None:
        """Keep what an answer about a run that is over may need, and no more: a log may hold many runs."""
        self.failures = [f for f in self.failures if f.fatal][:_KEPT_FATAL] + [f for f in self.failures if not f.fatal][
            :_KEPT_OTHERS
        ]
        self.notices.clear()
        self.acceptance.thin()

    def add(self, failure: Failure) -> None:
        """Keep a failure, as long as there is room: the first ones matter, and the fatal ones more."""
        room = _MOST_FATAL if failure.fatal else _MOST_OTHERS
        if sum(f.fatal == failure.fatal for f in self.failures) < room:
            self.failures.append(failure)
