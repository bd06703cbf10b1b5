"""YAML with a position for every key: text in, plain data and line numbers out.

Refuses what quietly goes wrong elsewhere: duplicate keys, tabs, custom tags, several documents,
and documents that unfold to more than a person wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

KeyPath = tuple[str | int, ...]
MAX_NODES = 20_000


@dataclass(frozen=True)
class Fault:
    """One mistake: where (line and column from 1; 0 when it has none), which key, what is wrong."""

    line: int
    column: int
    key: str
    message: str


@dataclass(frozen=True)
class Tree:
    """Plain data, the position (line, column, from 1) of each key path, and what was refused."""

    data: Any
    positions: dict[KeyPath, tuple[int, int]]
    faults: tuple[Fault, ...]


def dotted(path: KeyPath) -> str:
    """A key path as people write it: mounts[0].source."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def parse(text: str) -> Tree:
    """Read one YAML document. A syntax error becomes a fault with its position; never raises."""
    tabs = [
        Fault(number, line.index("\t") + 1, "", "a tab in the indentation: YAML allows only spaces there")
        for number, line in enumerate(text.split("\n"), 1)
        if "\t" in line[: len(line) - len(line.lstrip())] and line.strip() and not line.lstrip().startswith("#")
    ]
    if tabs:
        return Tree(None, {}, tuple(tabs))
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.context, error.problem) if part)
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        return Tree(None, {}, (Fault(line, column, "", f"not YAML: {said}"),))
    except yaml.YAMLError as error:
        return Tree(None, {}, (Fault(0, 0, "", f"not YAML: {error}"),))
    except RecursionError:
        return Tree(None, {}, (Fault(0, 0, "", "nested too deeply to be a configuration"),))
    if root is None:
        return Tree({}, {(): (1, 1)}, ())
    reader = _Reader()
    return Tree(reader.plain(root, ()), reader.positions, tuple(reader.faults))


class _Reader:
    """Turns a node graph into plain data, once, noting where each key stands."""

    def __init__(self) -> None:
        self.positions: dict[KeyPath, tuple[int, int]] = {}
        self.faults: list[Fault] = []
        self._construct = yaml.SafeLoader("")
        self._nodes = 0

    def plain(self, node: yaml.Node, path: KeyPath) -> Any:
        self._nodes += 1
        at = (node.start_mark.line + 1, node.start_mark.column + 1)
        self.positions.setdefault(path, at)
        if self._nodes > MAX_NODES or len(path) > 50:
            if self._nodes <= MAX_NODES + 1 or len(path) == 51:
                self._fault(at, path, "unfolds to far more than a configuration holds (aliases inside aliases?)")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, at, path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            at = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
                self._fault(at, path, "keys must be plain words (no `<<` merges)")
                continue
            key = str(key_node.value)
            inner = (*path, key)
            if key in result:
                self._fault(at, inner, f"a second time; the first is in line {self.positions[inner][0]}")
                continue
            self.positions[inner] = at
            result[key] = self.plain(value_node, inner)
        return result

    def _scalar(self, node: yaml.Node, at: tuple[int, int], path: KeyPath) -> Any:
        try:
            return self._construct.construct_object(node)
        except (yaml.YAMLError, ValueError, TypeError, AttributeError, OverflowError, LookupError) as error:
            said = getattr(error, "problem", None) or str(error)
            self._fault(at, path, f"cannot be read: {said}")
            return None

    def _fault(self, at: tuple[int, int], path: KeyPath, message: str) -> None:
        self.faults.append(Fault(*at, dotted(path), message))
