"""What collectors put around a line: docker, compose, Kubernetes, journald, JSON; others are learned.

A collector nobody named here writes the same thing before every line, but for numbers. Where the
known start of a vLLM line stands behind such a thing, its shape is remembered and taken off other
lines too, so that tracebacks without any start of their own are read as well.
"""

from __future__ import annotations

import json
import re

_OUTER = (
    # docker -t, Kubernetes CRI, journald -o short-iso: an RFC 3339 stamp, perhaps "stderr F", perhaps "host unit[pid]:"
    re.compile(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\s(?:(?:stdout|stderr) [FP] ?)?"
        r"(?:[\w.-]+ [\w@.:\\-]+\[\d+\]: ?)?"
    ),
    # journald -o short and syslog
    re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? [\w.-]+ [^\s:\[]+(?:\[\d+\])?: ?"),
    # docker compose and docker service logs
    re.compile(r"[A-Za-z0-9][\w.@-]* *\| ?(?!\|)"),
    # kubectl logs --prefix
    re.compile(r"\[pod/[^\]\s]+\] ?"),
)
_KNOWN_START = re.compile(r"\([A-Za-z]|DEBUG |INFO |WARNING |ERROR |CRITICAL |INFO: |Traceback|  File \"|    ")
_ANCHOR = re.compile(
    r"\((?:APIServer|ApiServer|EngineCore|Worker|VllmWorker|RayWorker)[^()]{0,40}pid=\d+[^()]{0,40}\) "
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? \[?[\w./-]+\.py:\d+\]"
)
_CHANGING = re.compile(r"\d+|0x[0-9a-f]+|[0-9a-f]{8,}")
_ANCHOR_WITHIN = 160
_SHAPES = 8
_SEEN_ENOUGH = 2
_MESSAGE_KEYS = ("log", "message", "msg", "MESSAGE", "textPayload", "line")


class Wrappers:
    """Takes the wrapping off the lines of one log."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._shapes: list[re.Pattern[str]] = []

    def strip(self, text: str) -> str:
        """The line without its wrapping; a structured record's text may hold newlines."""
        if _KNOWN_START.match(text):
            return text
        if text.startswith("{") and text.endswith("}"):
            text = _json_record(text)
        for _ in range(3):
            match = next(filter(None, (pattern.match(text) for pattern in _OUTER)), None)
            if match is None:
                break
            text = text[match.end() :]
        return text if _KNOWN_START.match(text) else self._unknown(text)

    def _unknown(self, text: str) -> str:
        likely = " pid=" in text or ".py:" in text
        match = _ANCHOR.search(text, 0, _ANCHOR_WITHIN + 120) if likely else None
        if match and 0 < match.start() <= _ANCHOR_WITHIN:
            self._remember(text[: match.start()])
            return text[match.start() :]
        for shape in self._shapes:
            if found := shape.match(text):
                return text[found.end() :]
        return text

    def _remember(self, wrapping: str) -> None:
        shape = r"[0-9a-fx]+".join(re.escape(part) for part in _CHANGING.split(wrapping))
        if shape in self._seen:
            self._seen[shape] += 1
            if self._seen[shape] == _SEEN_ENOUGH and len(self._shapes) < _SHAPES:
                self._shapes.append(re.compile(shape))
        elif len(self._seen) < 64:
            self._seen[shape] = 1


def _json_record(text: str) -> str:
    """The message of a structured record, with its level and traceback when they are fields of their own."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(record, dict):
        return text
    for key in _MESSAGE_KEYS:
        if isinstance(message := record.get(key), str):
            more = next(
                (record[k] for k in ("exc_info", "exception", "stack_trace") if isinstance(record.get(k), str)), ""
            )
            return (message + ("\n" + more if more else "")).rstrip("\n")
    return text
