"""Writes a support bundle: redacts every piece, lists what was redacted, packs it into one .tar.gz."""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from kit import files
from kit.support.collect import Piece
from kit.support.redact import Redaction, Redactor

SCHEMA = "kit.redactions/1"
MOST_LISTED = 20_000


def write(path: Path, pieces: Iterable[Piece], redactor: Redactor | None, notes: Sequence[str]) -> list[Redaction]:
    """Write the archive at `path`, whole or not at all, readable by its owner only; returns what was redacted.

    `redactor` None: nothing is redacted, and the archive says so. `notes` is read once all pieces are gathered.
    """
    folder = path.name.removesuffix(".tar.gz")
    with files.replacing(path, mode=0o600) as handle, tarfile.open(fileobj=handle, mode="w:gz") as archive:
        names = []
        for piece in pieces:
            name = redactor.text(piece.name, "file names") if redactor else piece.name
            text = redactor.text(piece.text, name) if redactor else piece.text
            _add(archive, f"{folder}/{name}", text)
            names.append(name)
        done = redactor.done if redactor else []
        _add(archive, f"{folder}/redactions.json", _list(redactor, done))
        told = [redactor.text(note, "notes") for note in notes] if redactor else list(notes)
        _add(archive, f"{folder}/README.txt", readme(names, done if redactor else None, told))
    return done


def readme(names: Sequence[str], done: Sequence[Redaction] | None, notes: Sequence[str]) -> str:
    """What is in the archive, what was taken out, and how to look at it."""
    lines = ["Support bundle made by kit support.", "", "Look at it:  kit diagnose THIS.tar.gz", ""]
    if done is None:
        lines.append("NOTHING WAS REDACTED: this archive may hold keys, names and addresses.")
    else:
        counts = Counter(redaction.rule for redaction in done)
        lines.append("Redacted (redactions.json says where):" if counts else "Redacted: nothing was found.")
        lines += [f"  {count:6}  {rule}" for rule, count in counts.most_common()]
    lines += ["", "Files:", *(f"  {name}" for name in names)]
    if notes:
        lines += ["", "Notes:", *(f"  {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def _list(redactor: Redactor | None, done: Sequence[Redaction]) -> str:
    value = {
        "schema": SCHEMA,
        "redacted": redactor is not None,
        "total": sum(redaction.count for redaction in done),
        "where": [asdict(redaction) for redaction in done[:MOST_LISTED]],
        "left_out": max(0, len(done) - MOST_LISTED),
    }
    return json.dumps(value, indent=1) + "\n"


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode("utf-8", "replace")
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))
