"""Compares two images file by file, and names one tree by a digest that every engine gives alike; pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kit.image.saved import Entry, Layer, SavedImage

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
# What of the configuration decides how a container runs; the rest is dates and history.
_MEANINGFUL = ("User", "Env", "Entrypoint", "Cmd", "WorkingDir", "ExposedPorts", "Volumes", "Labels", "StopSignal")


@dataclass(frozen=True)
class Difference:
    """One difference. `layer` counts from 0, None for the configuration or the merged tree; `why` is time, mode,
    owner, content, link, kind, attribute, order, missing, or added; `text` shows both sides."""

    layer: int | None
    path: str
    why: str
    text: str

    @property
    def place(self) -> str:
        return self.path if self.layer is None else f"layer {self.layer}: {self.path}"


def tree(image: SavedImage) -> dict[str, Entry]:
    """The file system that a container sees: layers merged, whiteouts applied, hard links as what they lead to."""
    merged: dict[str, Entry] = {}
    for layer in image.layers:
        for path in [p for p in layer.entries if p.rpartition("/")[2].startswith(_WHITEOUT)]:
            folder, _, name = path.rpartition("/")
            gone = folder if name == _OPAQUE else f"{folder}/{name.removeprefix(_WHITEOUT)}".strip("/")
            below = f"{gone}/" if gone else ""
            for old in [p for p in merged if p.startswith(below) or (p == gone and name != _OPAQUE)]:
                del merged[old]
        for path, entry in layer.entries.items():
            if path.rpartition("/")[2].startswith(_WHITEOUT) or not path:
                continue
            known = merged.get(path)
            if known is not None and known.kind == "dir" and entry.kind != "dir":
                for old in [p for p in merged if p.startswith(f"{path}/")]:
                    del merged[old]
            if entry.kind == "hardlink":
                target = entry.link.removeprefix("./").strip("/")
                entry = layer.entries.get(target) or merged.get(target) or entry
            merged[path] = entry
    return merged


def tree_digest(image: SavedImage) -> str:
    """A digest of the tree and of how it runs, without times, layers and history: "sha256:..."."""
    digest = hashlib.sha256()
    for path, e in sorted(tree(image).items()):
        line = [path, e.kind, e.mode, e.uid, e.gid, e.size, e.link if e.kind == "link" else "", e.sha256, e.extra]
        digest.update(json.dumps(line).encode() + b"\n")
    digest.update(json.dumps(_settings(image), sort_keys=True).encode())
    return f"sha256:{digest.hexdigest()}"


def differences(one: SavedImage, two: SavedImage) -> Iterator[Difference]:
    """Every difference of `two` from `one`: configuration, number of layers, then layer by layer and file by file."""
    before, after = _settings(one), _settings(two)
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            yield Difference(None, f"configuration {key}", "content", f"{before.get(key)} -> {after.get(key)}")
    if len(one.layers) != len(two.layers):
        yield Difference(None, "layers", "content", f"{len(one.layers)} -> {len(two.layers)}")
        yield from _of_entries(None, tree(one), tree(two))
        return
    for number, (old, new) in enumerate(zip(one.layers, two.layers, strict=True)):
        if old.diff_id != new.diff_id:
            yield from _of_layers(number, old, new)
    if one.config_digest != two.config_digest and before == after:
        for key in sorted(one.config.keys() | two.config.keys()):
            if key not in ("config", "rootfs") and one.config.get(key) != two.config.get(key):
                text = f"{_short(one.config.get(key))} -> {_short(two.config.get(key))}"
                yield Difference(None, f"configuration {key}", "time" if key == "created" else "content", text)


def _of_layers(number: int, old: Layer, new: Layer) -> Iterator[Difference]:
    found = list(_of_entries(number, old.entries, new.entries))
    yield from found
    if not found:
        places = zip(old.entries, new.entries, strict=True)
        first = next((f"{a} stands where {b} does" for a, b in places if a != b), "")
        why = "order" if first else "header"
        yield Difference(number, "", why, first or "same entries, other bytes in the tar's headers")


def _of_entries(number: int | None, old: Mapping[str, Entry], new: Mapping[str, Entry]) -> Iterator[Difference]:
    for path in sorted(old.keys() | new.keys()):
        a, b = old.get(path), new.get(path)
        if a is None or b is None:
            yield Difference(number, path, "added" if a is None else "missing", "")
            continue
        sides = {
            "kind": (a.kind, b.kind),
            "content": (a.sha256[:12], b.sha256[:12]) if a.sha256 != b.sha256 else ("", ""),
            "link": (a.link, b.link),
            "mode": (f"{a.mode:o}", f"{b.mode:o}"),
            "owner": (f"{a.uid}:{a.gid}", f"{b.uid}:{b.gid}"),
            "attribute": (str(a.extra), str(b.extra)),
            "time": (_time(a.mtime), _time(b.mtime)),
        }
        for why, (before, after) in sides.items():
            if before != after:
                yield Difference(number, path, why, f"{before} -> {after}")


def _settings(image: SavedImage) -> dict[str, Any]:
    config = image.config.get("config") or {}
    return {key: config[key] for key in _MEANINGFUL if config.get(key)}


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%S}" + f"{seconds % 1:.9f}"[1:].rstrip("0.")


def _short(value: object) -> str:
    return json.dumps(value)[:120]
