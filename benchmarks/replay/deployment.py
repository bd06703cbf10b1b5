"""Deployments for tests and benchmarks: like the embedded one, or one whose `vllm` plays a generated start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from benchmarks.replay.make_log import Start, make_log

ROOT = Path(__file__).parents[2]
EMBEDDED = ROOT / "examples" / "embedded.yaml"


def embedded(folder: Path, name: str, port: int, **sections: dict[str, Any]) -> Path:
    """Write a kit.yaml into `folder` (made) like the embedded one, each of `sections` laid over its own."""
    values = yaml.safe_load(EMBEDDED.read_text())
    values["name"] = name
    values.setdefault("server", {})["port"] = port
    for section, changes in sections.items():
        merged = (values.get(section) or {}) | changes
        values[section] = {key: value for key, value in merged.items() if value is not None}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "kit.yaml"
    file.write_text(yaml.safe_dump(values, sort_keys=False))
    return file


def playing(file: Path, kind: Start, speed: float, **settings: str) -> None:
    """Turn such a kit.yaml into one that plays `kind`; `settings` are those of ./vllm, as `until="200"`."""
    from kit.config import load
    from kit.image import reference

    env = {"PATH": "/replay:/usr/bin:/bin", "KIT_REPLAY_LOG": "/case/start.log", "KIT_REPLAY_SPEED": str(speed)}
    env |= {f"KIT_REPLAY_{name.upper()}": value for name, value in settings.items()}
    values = yaml.safe_load(file.read_text())
    values["engine"] = {"existing": reference(load(EMBEDDED)), "env": env, "vllm": "0.16.0", "device": "cpu"}
    values["mounts"] = [
        {"source": str(ROOT / "benchmarks" / "replay"), "target": "/replay"},
        {"source": str(file.parent), "target": "/case"},
    ]
    file.write_text(yaml.safe_dump(values, sort_keys=False))
    file.parent.chmod(0o755)
    log = "".join(f"{at:.3f}\t{text}\n" for at, text in make_log(kind))
    (file.parent / "start.log").write_text(log)
