"""Work done ahead in a thread, while whoever asked is busy with what came before."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

T = TypeVar("T")

DEPTH = 2  # items that wait; one more is being made, and one is with whoever asked
_END = object()


def ahead(items: Iterable[T]) -> Generator[T, None, None]:
    """The same items, in the same order; up to DEPTH + 1 of them are made ahead, in a thread of their own.

    An error in the making comes after the items made before it. When nobody asks any more, the thread ends.
    """
    made: queue.Queue[object] = queue.Queue(DEPTH)
    stopped = threading.Event()
    failed: list[BaseException] = []

    def put(item: object) -> bool:
        while not stopped.is_set():
            try:
                made.put(item, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def make() -> None:
        try:
            for item in items:
                if not put(item):
                    return
        except BaseException as error:  # raised again below
            failed.append(error)
        finally:
            if isinstance(items, Generator):
                items.close()
            put(_END)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    try:
        while (item := made.get()) is not _END:
            yield item  # type: ignore[misc]
        if failed:
            raise failed[0]
    finally:
        stopped.set()
        thread.join()
