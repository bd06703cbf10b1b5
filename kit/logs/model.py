"""The vocabulary of the diagnoser: a log line with its owner, a traceback, a failure, a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, field

ROLES = ("worker", "engine_core", "api_server", "container", "none")
STAGES = ("config", "load", "draft-load", "kv-cache", "warmup", "serving", "shutdown", "unknown")
VERDICTS = ("failed", "degraded", "healthy")
CATEGORIES = (
    "gpu-oom", "gpu-memory-busy", "kv-cache-too-small", "cli-args", "config-invalid", "parallel-layout",
    "spec-config", "spec-draft-load", "spec-target-unsupported", "spec-runtime", "spec-low-acceptance",
    "nccl-comm", "gpu-p2p", "shm-too-small", "driver-mismatch", "gpu-not-visible", "gpu-arch-unsupported",
    "jit-toolchain", "compile-capture", "model-download", "model-files", "model-unsupported", "host-resource",
    "host-oom-kill", "native-crash", "timeout-hang", "python-env", "ray-cluster", "gpu-hardware",
)  # fmt: skip
UNKNOWN = "unknown"
HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that wrote a line: its role, its rank within that role and its pid, as far as the log says."""

    role: str
    rank: int | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line without what others put before it.

    `number` counts newlines as `grep -n` does; `owner` is None for a line without a process prefix
    and without a logger's header; `level` and `where` (file of the logging call) come from the
    header; `text` is the message with its indentation; `race` is a second process of the same kind
    whose prefix stands in this line, and whose text is the next bare one; `stamp` is the time in the header,
    as written (kit.watch reads stages' times from it).
    """

    number: int
    text: str
    owner: Owner | None = None
    level: str | None = None
    where: str | None = None
    race: Owner | None = None
    stamp: str | None = None


@dataclass(slots=True)
class Raised:
    """One exception of a traceback: where it stands, what it says and the frames that led to it.

    `frames` are (file, function) pairs, outermost first. `link` says how it hangs on the one before
    it in the same traceback: None, "cause" (direct cause), "context" (during handling), "member"
    (of an exception group) or "remote" (quoted inside the message before it). `more` are the line
    numbers of the message's further lines.
    """

    line: int
    name: str
    message: str
    frames: list[tuple[str, str]] = field(default_factory=list)
    link: str | None = None
    more: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.name}: {self.message.rstrip()}" if self.message.strip() else self.name


@dataclass(slots=True)
class Trace:
    """A traceback as one process printed it: its exceptions in order, the first raised first."""

    owner: Owner
    start: int
    raised: list[Raised] = field(default_factory=list)
    intro: str = ""
    level: str | None = None
    where: str | None = None
    cut: bool = False
    end: int = 0
    failure: Failure | None = None

    @property
    def frames(self) -> list[tuple[str, str]]:
        return [frame for raised in self.raised for frame in raised.frames]


@dataclass(slots=True)
class Failure:
    """Something that went wrong in one process: the unit that causes are sought among.

    `kind`: exception, native (a crash outside Python), death (one that another reports), silent (one that
    nobody reports), usage, notice, hang, acceptance, cut (a traceback without its end), ended (the log
    itself), request (of one request, or of a helper).
    `blames` names the role this failure only passes on the news of (a consequence), or None.
    `fatal` is false for what a server survives unless something later needs a cause.
    """

    kind: str
    owner: Owner
    line: int
    exception: str
    stage: str = "unknown"
    trace: Trace | None = None
    raised: Raised | None = None
    blames: str | None = None
    fatal: bool = True
    level: str | None = None
    intro: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One step of the chain from the first cause to the last symptom."""

    process: str
    line: int
    exception: str


@dataclass(frozen=True, slots=True)
class RootCause:
    """What died first and why; the fields of the JSON contract."""

    category: str
    process: str
    rank: int | None
    pid: int | None
    exception: str
    line: int | None
    stage: str
    rule: str | None
    confidence: float
    summary: str
    remedy: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quote:
    """A line of the log, quoted."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer for one log: verdict, first cause, chain and evidence."""

    verdict: str
    root_cause: RootCause | None
    chain: tuple[Link, ...] = ()
    runs: int = 0
    lines: int = 0
    evidence: tuple[Quote, ...] = ()
    version: str | None = None
    notes: tuple[str, ...] = ()
