"""From a file, KIT_* variables and `--set` to a Deployment, or every fault at once."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from kit.config.deployment import Deployment
from kit.config.rules import cross_faults
from kit.config.schema import PATTERNS, Kit
from kit.config.tree import Fault, KeyPath, Tree, dotted, parse
from kit.errors import MissingError, UsageError
from kit.parse import yaml_of

MAX_BYTES = 1 << 20


def find(given: Path | None) -> Path:
    """The kit.yaml to use: the one given, else KIT_FILE, else ./kit.yaml. Raises MissingError."""
    path = given or Path(os.environ.get("KIT_FILE") or "kit.yaml")
    if path.is_dir():
        path = path / "kit.yaml"
    if not path.exists():
        raise MissingError(
            f"there is no {path}", hint="name one with -f FILE; for the embedded demo: -f examples/embedded.yaml"
        )
    return path.absolute()


def load(given: Path | None = None, sets: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> Deployment:
    """Read, override and validate. Raises MissingError (no file), UsageError (every fault, with its place)."""
    file = find(given)
    tree = parse(_text(file))
    if tree.faults or not isinstance(tree.data, dict):
        refused = tree.faults or (Fault(1, 1, "", "the file must hold a mapping of keys"),)
        raise _refused(file, list(refused))
    sources: dict[KeyPath, str] = {path: f"{file.name}:{line}" for path, (line, _) in tree.positions.items()}
    faults: list[Fault] = []
    for path, value, source in _overrides(os.environ if environ is None else environ, sets):
        if isinstance(value, Fault):
            faults.append(value)
        elif _put(tree.data, path, value):
            sources = {p: s for p, s in sources.items() if p[: len(path)] != path} | {path: source}
        else:
            faults.append(Fault(0, 0, dotted(path), f"cannot be set from {source}: a part of it is no mapping"))
    try:
        kit = Kit.model_validate(tree.data)
    except ValidationError as error:
        raise _refused(file, faults + list(_translate(error, tree, sources))) from None
    faults += [_at(tree, sources, path, message) for path, message in cross_faults(kit)]
    if faults:
        raise _refused(file, faults)
    return Deployment(kit, file, sources)


def variables(model: type[BaseModel] = Kit, path: KeyPath = ()) -> Iterator[tuple[str, KeyPath]]:
    """Each KIT_* variable that sets a single value, with the key path it sets."""
    for name, field in model.model_fields.items():
        key = field.alias or name
        inner = _inner_model(field.annotation)
        if inner:
            yield from variables(inner, (*path, key))
        else:
            yield "KIT_" + "_".join((*map(str, path), key)).upper(), (*path, key)


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    for option in (annotation, *get_args(annotation)):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return None if getattr(annotation, "__origin__", None) is list else option
    return None


def _text(file: Path) -> str:
    try:
        with file.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise MissingError(f"cannot read {file}: {error.strerror}", hint=f"ls -l {file}") from None
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{file} is larger than {MAX_BYTES} bytes; a kit.yaml is not", hint="kit config check -f FILE")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _refused(file, [Fault(line, 1, "", "is not UTF-8 text")]) from None


def _overrides(environ: Mapping[str, str], sets: Sequence[str]) -> Iterator[tuple[KeyPath, Any, str]]:
    """(key path, value or Fault, source) from variables first, then from flags, which win."""
    for name, path in variables():
        if name in environ:
            yield path, _scalar(environ[name], name), name
    for item in sets:
        key, equals, text = item.partition("=")
        path = tuple(int(part) if part.isdigit() else part for part in key.strip().split("."))
        if not equals or not key.strip():
            yield path, Fault(0, 0, key, "--set needs KEY=VALUE, such as server.port=9000"), "--set"
        else:
            yield path, _scalar(text, key), "--set"


def _scalar(text: str, source: str) -> Any:
    try:
        return yaml_of(text)
    except ValueError:
        return Fault(0, 0, source, f"{text!r} is not a YAML value; quote it")


def _put(data: Any, path: KeyPath, value: Any) -> bool:
    for part in path[:-1]:
        if isinstance(data, dict):
            if data.get(str(part)) is None:
                data[str(part)] = {}
            data = data[str(part)]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return False
    if isinstance(data, dict):
        data[str(path[-1])] = value
        return True
    if isinstance(data, list) and isinstance(path[-1], int) and path[-1] < len(data):
        data[path[-1]] = value
        return True
    return False


def _translate(error: ValidationError, tree: Tree, sources: dict[KeyPath, str]) -> Iterator[Fault]:
    """pydantic's errors as faults of the file; one per key, the plainest."""
    seen: set[KeyPath] = set()
    for item in error.errors(include_url=False):
        path = tuple(p for p in item["loc"] if not (isinstance(p, str) and ("[" in p or p in ("literal", "list"))))
        if path in seen:
            continue
        seen.add(path)
        yield _at(tree, sources, path, _message(item, path))


def _message(item: Any, path: KeyPath) -> str:
    kind, context = item["type"], item.get("ctx") or {}
    found = f"; found {item['input']!r:.80}" if not isinstance(item["input"], dict) else "; found a mapping"
    match kind:
        case "extra_forbidden":
            allowed = _keys_at(path[:-1])
            near = difflib.get_close_matches(str(path[-1]), allowed, 1, 0.5)
            return "is not a known key" + (
                f"; did you mean `{near[0]}`?" if near else f"; allowed: {', '.join(allowed)}"
            )
        case "missing":
            return "is needed and missing"
        case "literal_error":
            expected = context["expected"].replace("'", "").replace(" or ", ", ")
            near = difflib.get_close_matches(str(item["input"]), expected.split(", "), 1)
            return f"must be one of {expected}{found}" + (f"; did you mean `{near[0]}`?" if near else "")
        case "string_type":
            return f"must be text{found}" + ("" if isinstance(item["input"], (dict, list)) else "; quote it")
        case "int_type" | "int_from_float":
            return f"must be a whole number{found}"
        case "float_type":
            return f"must be a number{found}"
        case "bool_type":
            return f"must be true or false{found}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"must be a mapping of keys{found}"
        case "list_type":
            return f"must be a list{found}"
        case "string_pattern_mismatch":
            return PATTERNS.get(context["pattern"], f"must match {context['pattern']}") + found
        case "value_error":
            return f"{context['error']}{found}"
    return str(item["msg"]).replace("Input should", "should") + found


def _keys_at(path: KeyPath) -> list[str]:
    model: type[BaseModel] | None = Kit
    for part in path:
        if model is None or isinstance(part, int):
            continue
        field = next((f for n, f in model.model_fields.items() if (f.alias or n) == part), None)
        model = _model_of(field.annotation) if field else None
    return [f.alias or n for n, f in model.model_fields.items()] if model else []


def _model_of(annotation: Any) -> type[BaseModel] | None:
    options = (annotation, *get_args(annotation))
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def _at(tree: Tree, sources: dict[KeyPath, str], path: KeyPath, message: str) -> Fault:
    """The fault at the nearest place that the file has; one set from outside says so."""
    for size in range(len(path), -1, -1):
        source = sources.get(path[:size], "")
        if source.startswith(("KIT_", "--set")):
            return Fault(0, 0, dotted(path), f"{message} (from {source})")
        if path[:size] in tree.positions:
            return Fault(*tree.positions[path[:size]], dotted(path), message)
    return Fault(0, 0, dotted(path), message)


def _refused(file: Path, faults: list[Fault]) -> UsageError:
    lines = []
    for fault in sorted(faults, key=lambda f: (f.line, f.column)):
        where = f"{file.name}:{fault.line}:{fault.column}" if fault.line else file.name
        lines.append(f"{where}: {fault.key + ': ' if fault.key else ''}{fault.message}")
    count = f"{len(lines)} faults" if len(lines) > 1 else "a fault"
    return UsageError(
        f"{file} has {count}",
        evidence=lines,
        hint="mend the lines above, then: kit config check (all keys: kit config schema)",
    )
