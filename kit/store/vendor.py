"""Inputs in a folder that can be carried: files under their own names, and a SHA256SUMS that `sha256sum -c` checks."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from kit import files
from kit.errors import IntegrityError, MissingError
from kit.store.store import Item, Store

SUMS = "SHA256SUMS"


def give(folder: Path, store: Store, items: Sequence[Item]) -> int:
    """Put `items` into `folder`, which may hold some already; returns their size in bytes.

    SHA256SUMS is written last, so a folder with one is whole.
    """
    files.need_space(folder, sum(i.size for i in items), "vendoring")
    sums = folder / SUMS
    sums.unlink(missing_ok=True)
    for item in items:
        to = folder / item.name
        if to.exists() and files.sha256(to) == item.sha256:
            continue
        to.unlink(missing_ok=True)
        store.stage([item], folder)
    files.write(sums, "".join(f"{i.sha256}  {i.name}\n" for i in sorted(items, key=lambda i: i.name)))
    return sum(i.size for i in items)


def take(folder: Path, store: Store, items: Sequence[Item]) -> int:
    """Copy into the store what it lacks of `items` from a vendored `folder`; returns how many files.

    Raises MissingError when the folder is none, IntegrityError when a file in it is not what SHA256SUMS
    and the lock say.
    """
    sums = folder / SUMS
    if not sums.is_file():
        raise MissingError(f"{folder} holds no {SUMS}", hint="kit fetch --vendor DIR makes such a folder")
    listed = dict(re.findall(r"(?m)^([0-9a-f]{64})  ([^/\n]+)$", sums.read_text()))
    lacking = [i for i in store.missing(items) if i.sha256 in listed]
    with store.filling() as scratch:
        for item in lacking:
            source, copy = folder / listed[item.sha256], scratch / item.name
            if not source.is_file():
                raise IntegrityError(f"{source} is gone, although {sums} names it")
            shutil.copyfile(source, copy)
            store.add(copy, item)
    return len(lacking)
