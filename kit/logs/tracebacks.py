"""Puts tracebacks together again, line by line, from the stream of one process.

Follows chains ("direct cause", "during handling"), exception groups, tracebacks that Ray quotes
inside a message, and messages of many lines (pydantic, compilers). Foreign lines in between, a
beginning or an end that is cut off, do not disturb it.
"""

from __future__ import annotations

import re

from kit.logs.model import Line, Owner, Raised, Trace

BEGIN = "Traceback (most recent call last)"
_FRAME = re.compile(r'\s*File "(?P<file>[^"]*)", line \d+(?:, in (?P<function>.*))?$')
_RAISED = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*|[a-z_]\w*(?:error|exception|timeout)))"
    r"(?:\([\w.]+\))?(?:: ?(?P<message>.*))?$",
    re.DOTALL,
)
_STRICT = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failed|Timeout|Warning)\b")
_NEVER = frozenset(
    ("Killed", "Terminated", "Aborted", "Usage", "INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL", "Loading", "Prompt")
    + ("Process",)
)
_CONTEXT = "During handling of the above exception, another exception occurred"
_CAUSE = "The above exception was the direct cause of the following exception"
_GROUP = re.compile(r"\s*(?:[|+][-+ ]*(?:\d+ -+)?|\+-+) ?")
_MEMBER = re.compile(r"\s*\+-\+-+ \d+ -+")
_MAX_MESSAGE_LINES = 48
_MAX_FOREIGN = 40
_MAX_BEFORE_FRAMES = 3
_MAX_FRAMES = 400
_MAX_RAISED = 24


class Builder:
    """The traceback under way in one stream; `feed` takes its lines and returns whole traces."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.state = "idle"
        self.trace: Trace | None = None
        self.intro = ""
        self._frames: list[tuple[str, str]] = []
        self._link: str | None = None
        self._foreign = 0
        self._header = 0
        self._sure = False

    @property
    def told(self) -> int:
        """How many exceptions the traceback under way has named."""
        return len(self.trace.raised) if self.trace else 0

    def feed(self, line: Line) -> tuple[bool, Trace | None]:
        """Take a line. Returns whether it belongs to a traceback, and the trace it ended, if any."""
        text = line.text
        if self.state == "idle":
            return self._idle(line, text)
        if self.trace is not None:
            self.trace.end = line.number
        if self.trace is not None and not self._same_header(line):
            if self.state == "frames":
                return False, None  # another message of the same process in between
            return False, self.finish()
        if self.state != "idle" and text[:6].lstrip()[:1] in ("|", "+") and (match := _GROUP.match(text)):
            if _MEMBER.match(text):
                self.state, self._link = "between", "member"
                return True, None
            text = text[match.end() :] if "File" not in text[: match.end()] else text
        if self.state == "frames":
            return self._in_frames(line, text)
        return self._in_message(line, text)

    def finish(self) -> Trace | None:
        """End the traceback under way (the log ends, or another message begins)."""
        trace, self.trace = self.trace, None
        if trace is not None and not (self._frames or trace.raised or self._sure):
            trace = None
        if trace is not None and self.state in ("frames", "between") and (self._frames or not trace.raised):
            trace.cut = True
            if self._frames:
                trace.raised.append(Raised(self._header, "", "", self._frames, self._link))
        self.state, self._frames, self._link, self._foreign = "idle", [], None, 0
        return trace

    def _idle(self, line: Line, text: str) -> tuple[bool, Trace | None]:
        if begins(line):
            before = text[: text.index(BEGIN)].strip(" +:")
            self._begin(line, before or self.intro)
            return True, None
        frame = _FRAME.match(text)
        if frame and frame["file"].endswith((".py", ".pyx", ">")) and "line 0, in" not in text:
            self._begin(line, self.intro)
            assert self.trace is not None
            self.trace.cut = True
            return self._in_frames(line, text)
        if text.strip():
            self.intro = text[:400]
        return False, None

    def _begin(self, line: Line, intro: str) -> None:
        self.trace = Trace(self.owner, line.number, intro=intro, level=line.level, where=line.where)
        self._sure = line.text.startswith((BEGIN, "  File"))
        self.state, self._frames, self._link, self._foreign, self._header = "frames", [], None, 0, line.number
        self.intro = ""

    def _same_header(self, line: Line) -> bool:
        assert self.trace is not None
        return (line.level, line.where) == (self.trace.level, self.trace.where)

    def _in_frames(self, line: Line, text: str) -> tuple[bool, Trace | None]:
        assert self.trace is not None
        if match := _FRAME.match(text):
            if len(self._frames) < _MAX_FRAMES:
                self._frames.append((match["file"], match["function"] or ""))
            return True, None
        if not text or text[0] in " \t" or text.startswith("[Previous line repeated"):
            return True, None
        if BEGIN in text:
            if self._frames:
                trace = self.finish()
                self._begin(line, "")
                return True, trace
            return True, None
        match = _RAISED.match(text)
        if match and match["name"] not in _NEVER and (self._frames or _STRICT.match(text)):
            raised = Raised(line.number, match["name"], match["message"] or "", self._frames, self._link)
            if len(self.trace.raised) < _MAX_RAISED:
                self.trace.raised.append(raised)
            self.state, self._frames, self._link, self._foreign = "message", [], None, 0
            self._lines = 0
            return True, None
        self._foreign += 1
        if not self._frames and not self.trace.raised and self._foreign > _MAX_BEFORE_FRAMES:
            self._drop()
        elif self._foreign > _MAX_FOREIGN:
            return False, self.finish()
        return False, None

    def _drop(self) -> None:
        """It was no traceback after all."""
        self.trace, self.state = None, "idle"

    def _in_message(self, line: Line, text: str) -> tuple[bool, Trace | None]:
        assert self.trace is not None
        if _CONTEXT in text or _CAUSE in text:
            self.state, self._link = "between", "cause" if _CAUSE in text else "context"
            return True, None
        if BEGIN in text:
            if self.state == "between":
                self.state, self._frames, self._header = "frames", [], line.number
                return True, None
            trace = self.finish()
            self._begin(line, text[: text.index(BEGIN)].strip(" +:"))
            return True, trace
        if self.state == "between":
            return not text.strip(), None
        if _FRAME.match(text):  # a traceback quoted inside the message (Ray, torch's elastic launcher)
            self.state, self._link, self._header = "frames", "remote", line.number
            return self._in_frames(line, text)
        bare = self.trace.level is None
        if self._lines >= _MAX_MESSAGE_LINES or (bare and _ends_message(text)):
            trace = self.finish()
            self.intro = text[:400] if text.strip() else ""
            return False, trace
        self._lines += 1
        raised = self.trace.raised[-1]
        if len(raised.message) < 8000:
            raised.message += "\n" + text
            raised.more = (*raised.more, line.number)
        return True, None


def begins(line: Line) -> bool:
    """Whether a traceback begins in this line (and is not only quoted in it, as in a logged prompt)."""
    at = line.text.find(BEGIN)
    if at < 0:
        return False
    if line.level in ("INFO", "DEBUG"):
        return at == 0
    return at == 0 or line.text[at - 1] in " :|+]"


def _ends_message(text: str) -> bool:
    """Whether an unprefixed line cannot be the rest of an exception's message."""
    return text.startswith(("Process ", "[rank", "INFO", "WARNING", "ERROR", "usage:", "Exception ignored in"))


def causal(trace: Trace) -> list[Raised]:
    """The exceptions of a trace, the one that happened first at the front.

    Python prints a chain in order of time; what a message or a group quotes happened before the
    exception that quotes it.
    """
    ordered: list[Raised] = []
    block: list[Raised] = []
    for raised in trace.raised:
        if raised.link in ("remote", "member"):
            block.insert(0, raised)
        else:
            ordered += block
            block = [raised]
    return ordered + block
