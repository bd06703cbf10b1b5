"""What must not enter a bundle: secrets, and names of the machine and person that packed it.

The rules are those of `kit.support.redact`; here they refuse, or clean the reports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kit.config import Deployment
from kit.support import redact
from kit.support.known import rules_of
from kit.support.redact import Redactor, Rule

# Of the general rules these refuse a bundle; mail and network addresses that a person wrote may be told.
REFUSING = {"private-key", "url-password", "url-parameter", "authorization", "named-secret", "option-secret"}
REFUSING |= {"known-token", "home"}
# The folder in which a deployment was qualified, which may have been another than the one it is packed in.
_QUALIFIED_IN = Rule("folder", "folder", re.compile(r"/[^\s\"']*(?=/\.kit\b)"), plain=True)
_IN_LOCK = {"user-name", "host-name"}  # a package in the lock may have the same name as a person


def of_machine(deployment: Deployment, folders: Mapping[str, Path]) -> list[Rule]:
    """The secrets, names and folders that this machine knows. `folders` maps a word to a path not to be told."""
    paths = {"home-folder": Path.home(), **folders}
    longest_first = sorted(paths.items(), key=lambda item: -len(str(item[1])))
    rules = [
        Rule(word, word, re.compile(re.escape(str(path))), plain=True)
        for word, path in longest_first
        if len(path.parts) > 2  # "/root" tells nobody
    ]
    return [*rules, *rules_of(deployment)]


def cleaned(text: str, own: Sequence[Rule], name: str) -> str:
    """`text` with everything replaced that any rule finds. `own` are those of `of_machine`."""
    return Redactor([*own, _QUALIFIED_IN, *redact.rules()]).text(text, name)


def found_in(files: Mapping[str, bytes], own: Sequence[Rule], allowed: Sequence[str]) -> list[str]:
    """Where files tell what they must not: `name:line: rule`, never the text itself. `allowed` are ids of rules."""
    rules = [rule for rule in [*own, *redact.rules()] if rule in own or rule.id in REFUSING]
    redactor = Redactor([rule for rule in rules if rule.id not in allowed])
    for name, data in sorted(files.items()):
        redactor.text(data.decode("utf-8", "replace"), name)
    return [
        f"{note.file}:{note.line}: {note.rule}"
        for note in redactor.done
        if not (note.rule in _IN_LOCK and note.file.startswith("lock/"))
    ]
