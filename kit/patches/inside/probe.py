"""Probes: what a source tree says about one patch. A new kind of probe is a function in PROBES."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .common import Tree

MARKER = "# kit patch: "  # every patched file says so, with the patch's id


@dataclass(frozen=True)
class Finding:
    """`state` is needed, applied, not-needed or broken; `why` is one line for people."""

    state: str
    why: str


def judge(tree: Tree, patch: dict[str, Any]) -> Finding:
    """Whether the tree needs `patch` (its metadata), has it, never needs it, or is broken for the probe."""
    probe = patch["probe"]
    texts = {path: text for path in probe["files"] if (text := tree(path)) is not None}
    if not texts:
        return Finding("broken", f"none of these files is there: {', '.join(probe['files'])}")
    modules = []
    for path, text in texts.items():
        try:
            modules.append(ast.parse(text, path))
        except SyntaxError as error:
            return Finding("broken", f"{path} does not parse: line {error.lineno}: {error.msg}")
    lack = PROBES[probe["kind"]](modules, probe)
    marked = [path for path, text in texts.items() if MARKER + patch["id"] in text]
    if lack and marked:
        return Finding("broken", f"{marked[0]} bears this patch's mark, yet {lack}")
    if lack:
        return Finding("needed", lack)
    return Finding("applied", f"{marked[0]} has it") if marked else Finding("not-needed", "vLLM's own code has it")


def _model_types_accepted(modules: list[ast.Module], probe: dict[str, Any]) -> str | None:
    """Every list of model types that a target's type is searched in must accept `types`."""
    for module in modules:
        lists = {
            name.id: [item.value for item in node.value.elts if isinstance(item, ast.Constant)]
            for node in ast.walk(module)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.List)
            for name in node.targets
            if isinstance(name, ast.Name)
        }
        for node in ast.walk(module):
            if not (isinstance(node, ast.GeneratorExp) and isinstance(node.elt, ast.Compare)):
                continue
            searched, source = node.elt.comparators[0], node.generators[0].iter
            if isinstance(searched, ast.Attribute) and searched.attr == "model_type" and isinstance(source, ast.Name):
                accepted = lists.get(source.id, [])
                lack = [kind for kind in probe["types"] if not any(str(part) in kind for part in accepted)]
                if lack:
                    return f"{source.id} leaves out {', '.join(lack)}"
    return None


def _special_case(modules: list[ast.Module], probe: dict[str, Any]) -> str | None:
    """A function that reads attribute `default` must have a branch for `case` that reads `reads` instead."""
    for module in modules:
        for function in ast.walk(module):
            if not isinstance(function, ast.FunctionDef) or not _reads(function, probe["default"]):
                continue
            branches = [
                branch
                for branch in ast.walk(function)
                if isinstance(branch, ast.If)
                and any(isinstance(n, ast.Constant) and n.value == probe["case"] for n in ast.walk(branch.test))
                and any(_reads(statement, probe["reads"]) for statement in branch.body)
            ]
            if not branches:
                return f"{function.name} reads {probe['default']} for every model, {probe['case']} has {probe['reads']}"
    return None


def _reads(node: ast.AST, attribute: str) -> bool:
    return any(
        isinstance(n, ast.Attribute) and n.attr == attribute and isinstance(n.ctx, ast.Load) for n in ast.walk(node)
    )


def _class_interface(modules: list[ast.Module], probe: dict[str, Any]) -> str | None:
    """`class` must declare `interface`, itself or through bases in these files, and the files must use `uses`."""
    classes = {n.name: n for module in modules for n in module.body if isinstance(n, ast.ClassDef)}
    if probe["class"] not in classes:
        return f"there is no class {probe['class']}"
    names = [probe["class"]]
    for name in names:
        if name in classes:
            names += [base.id for base in classes[name].bases if isinstance(base, ast.Name) and base.id not in names]
    if probe["interface"] not in names:
        return f"{probe['class']} does not declare {probe['interface']}"
    absent = [name for name in probe.get("uses", []) if not any(_reads(module, name) for module in modules)]
    return f"nothing reads {absent[0]}" if absent else None


def _constant_absent(modules: list[ast.Module], probe: dict[str, Any]) -> str | None:
    """The text `constant` must not stand in the code (comments do not count)."""
    for module in modules:
        for node in ast.walk(module):
            if isinstance(node, ast.Constant) and node.value == probe["constant"]:
                return f"line {node.lineno} says {probe['constant']!r}"
    return None


PROBES: dict[str, Callable[[list[ast.Module], dict[str, Any]], str | None]] = {
    "model-types-accepted": _model_types_accepted,
    "special-case": _special_case,
    "class-interface": _class_interface,
    "constant-absent": _constant_absent,
}
