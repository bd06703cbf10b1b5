"""Templates to files: strict, byte-identical for the same input, stamped with what they came from."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from kit import __version__, files
from kit.advice import accepted
from kit.config import Deployment
from kit.errors import KitError
from kit.render.arguments import environment, serve_arguments, speculative_config
from kit.render.container import PORT, container_spec
from kit.render.quote import FILTERS, Safe, finalize
from kit.resources import folder

EXECUTABLE = {"launch.sh", "healthcheck.py"}


@dataclass(frozen=True)
class Rendered:
    """The rendered tree in memory: relative path -> bytes. `launch.sh` and the like are executable."""

    files: dict[str, bytes]

    def write(self, root: Path) -> list[str]:
        """Bring `root` up to date, file by file and each in one step; returns the names that changed."""
        changed = [name for name, state in self.compare(root) if state != "unexpected"]
        for name in changed:
            files.write(root / name, self.files[name], 0o755 if name in EXECUTABLE else 0o644)
        return changed

    def compare(self, root: Path) -> Iterator[tuple[str, str]]:
        """What is not as rendered: (name, "missing" | "stale" | "unexpected")."""
        for name, content in sorted(self.files.items()):
            path = root / name
            if not path.is_file():
                yield name, "missing"
            elif path.read_bytes() != content or bool(path.stat().st_mode & 0o100) != (name in EXECUTABLE):
                yield name, "stale"
        if root.is_dir():
            there = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
            yield from ((name, "unexpected") for name in sorted(there - set(self.files)))

    def diff(self, root: Path) -> str:
        """A unified diff from what stands in `root` to what would be written."""
        parts: list[str] = []
        for name, content in sorted(self.files.items()):
            old = (root / name).read_text(errors="replace") if (root / name).is_file() else ""
            new = content.decode()
            parts += difflib.unified_diff(
                old.splitlines(keepends=True), new.splitlines(keepends=True), f"{name} (now)", f"{name} (rendered)"
            )
        return "".join(parts)


def render(deployment: Deployment, image: str, extra: Mapping[str, Any] | None = None) -> Rendered:
    """All files of a deployment that runs `image`. `extra` adds variables for templates (by name).

    Raises UsageError for a value that a target language cannot hold.
    """
    variables = _variables(deployment, image) | dict(extra or {})
    env = template_environment()
    names = [n for n in env.list_templates() if n.endswith(".j2") and not n.startswith("image/")]
    return Rendered({n.removesuffix(".j2"): render_one(env, n, variables) for n in names})


def template_environment() -> jinja2.Environment:
    """Strict templates: an undefined name fails, and so does a value that no filter quoted."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder("templates")),
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # no HTML here; `finalize` refuses whatever was not quoted
    )
    env.filters.update(FILTERS)
    return env


def render_one(env: jinja2.Environment, name: str, variables: Mapping[str, Any]) -> bytes:
    """One template as bytes. Raises KitError naming the template and what is wrong with it."""
    try:
        return env.get_template(name).render(variables).encode()
    except (jinja2.TemplateError, TypeError) as error:
        raise KitError(f"template {name}: {error}", hint="mend templates/" + name) from error


def _variables(deployment: Deployment, image: str) -> dict[str, Any]:
    kit = deployment.kit
    return {
        "stamp": stamp(deployment),
        "kit": kit,
        "container": container_spec(deployment, image),
        "container_port": PORT,
        "monitored_host": reachable(kit.server.host),
        "arguments": serve_arguments(deployment),
        "environment": environment(deployment),
        "advice": accepted(deployment),
        "target": str(deployment.target),
        "speculative_inside": speculative_config(deployment, "/drafter"),
        "speculative_outside": speculative_config(deployment, str(deployment.drafter)),
        "api_key_file": str(deployment.path(kit.server.api_key_file)) if kit.server.api_key_file else "",
        "kit_yaml": str(deployment.file),
        "folder": str(deployment.folder),
    }


def reachable(host: str) -> str:
    """The address under which a service bound to `host` is reached from this machine, as a URL needs it."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{name}]" if ":" in name else name


def stamp(deployment: Deployment) -> Safe:
    """The line in every rendered file: which kit made it, from which values."""
    text = json.dumps(deployment.kit.model_dump(by_alias=True), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Safe(
        f"Rendered by kit {__version__} for deployment {deployment.name} (values {digest}). "
        "Edits here are lost: change kit.yaml, then `kit render`."
    )
