"""From bytes to numbered lines, whatever the bytes: chunks, huge lines, no UTF-8, no last newline."""

from __future__ import annotations

from collections.abc import Iterator

# A longer line is cut in its middle: its beginning names the process, its end may hold the message.
LONGEST = 32_768


class Splitter:
    """Cuts chunks into lines at newlines only (a carriage return is not one); memory stays constant.

    `number` is how many lines came before.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self._head = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> Iterator[tuple[int, str]]:
        """The lines that `chunk` completes, with their numbers from 1."""
        start = 0
        end = chunk.find(b"\n")
        if end >= 0 and (self._head or self._tail):
            self._keep(chunk[:end] if end < LONGEST else chunk[: LONGEST // 2] + chunk[end - LONGEST // 2 : end])
            yield self._line()
            start, end = end + 1, chunk.find(b"\n", end + 1)
        while end >= 0:
            self.number += 1
            yield self.number, _text(chunk[start:end] if end - start <= LONGEST else _cut(chunk, start, end))
            start, end = end + 1, chunk.find(b"\n", end + 1)
        if start < len(chunk):
            self._keep(chunk[start:] if len(chunk) - start <= LONGEST else _cut(chunk, start, len(chunk)))

    def finish(self) -> Iterator[tuple[int, str]]:
        """The last line, when no newline ended it."""
        if self._head or self._tail:
            yield self._line()

    def _keep(self, part: bytes) -> None:
        room = LONGEST // 2 - len(self._head)
        if room > 0:
            self._head += part[:room]
            part = part[room:]
        self._tail = (self._tail + part)[-LONGEST // 2 :]

    def _line(self) -> tuple[int, str]:
        text, self._head, self._tail = self._head + self._tail, b"", b""
        self.number += 1
        return self.number, _text(text)


def _cut(chunk: bytes, start: int, end: int) -> bytes:
    half = LONGEST // 2
    return chunk[start : start + half] + chunk[end - half : end]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
