"""Takes off what others put before a line and says which process wrote it.

Styles seen from vLLM 0.4 to 0.33: no prefix at all; `(VllmWorker rank=N pid=P)`; `(EngineCore_DPn pid=P)`,
`(Worker_TPn_EPn pid=P)`; a worker's line relayed by its parent (two prefixes); Ray's `(RayWorkerWrapper
pid=P, ip=A)`. Before those stand the marks of docker, compose, Kubernetes and journald, and colours;
marks of collectors that nobody named here are learned from the log itself.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kit.logs.model import Line, Owner
from kit.logs.wrappers import Wrappers

_COLOUR = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|(?<![\w\]])\[[0-9]{1,3}(?:;[0-9]{1,3})*m"
)
_PROCESS = re.compile(r"\((?P<name>[A-Za-z][\w:.+/-]*)(?P<more>(?: [\w=.+-]+)*?) pid=(?P<pid>\d+)(?:, ip=[^)]*)?\) ?")
_RANK = re.compile(r"rank[=:]? ?(\d+)|(?:TP|PP|DP)(\d+)|[-_](\d+)$")
_HEADER = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<stamp>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?) "
    r"\[?(?P<where>[\w./-]+\.py):\d+\] ?"
)
_OWN_RANK = re.compile(r"world_size=\d+ rank=(?P<rank>\d+) local_rank=")
_TORCH_RANK = re.compile(r"\[rank(\d+)\]: ?(?!\[)")
_NCCL = re.compile(r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] )?[\w.-]+:(?P<pid>\d+):\d+ \[(?:\d+|\w+)\] ")
_UVICORN = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL): {4,}")
_REPEATED = re.compile(r" *\[repeated \d+x across cluster\].*$")

# the file that a logger's header names -> the API server logs from it, in versions that print no prefix
_API_FILES = frozenset(
    re.findall(
        r"\w+",
        "api_server async_llm core_client launcher cli_args arg_utils loggers metrics hf client config model utils "
        "api_utils entry serve speculative vllm",
    )
)
_MOST_PIDS = 4096


class Names:
    """Reads the lines of one log; remembers which pid belongs to which process."""

    def __init__(self) -> None:
        self.by_pid: dict[int, Owner] = {}
        self._wrappers = Wrappers()

    def read(self, number: int, raw: str) -> list[Line]:
        """One line, without its newline. More than one Line comes of a record that holds newlines (JSON)."""
        if "\x1b" in raw or "[0;" in raw or "m(" in raw:
            raw = _COLOUR.sub("", raw)
        if "\r" in raw:
            raw = _last_return(raw)
        return [self._read(number, part) for part in self._wrappers.strip(raw).split("\n")]

    def _read(self, number: int, text: str) -> Line:
        owner, race = None, None
        while text.startswith("(") and (match := _PROCESS.match(text)):
            found = _owner(match["name"], match["more"], int(match["pid"]))
            if owner is not None and owner.role == found.role and owner.pid != found.pid:
                race = found  # two of a kind wrote at once: the second one's text follows bare
            else:
                owner = found  # relayed by a parent: the inner one wrote it
            self._learn(found)
            text = text[match.end() :]
        level, where, stamp = None, None, None
        if match := _HEADER.match(text):
            level, where, stamp = match["level"], match["where"].rsplit("/", 1)[-1], match["stamp"]
            text = text[match.end() :]
            if owner is not None and owner.rank is None and owner.role == "worker" and owner.pid is not None:
                owner = self._ranked(owner, owner.pid, text)
            if owner is None:
                name = where[:-3]
                owner = Owner("api_server" if name in _API_FILES or name.startswith("serving") else "engine_core")
        elif match := _UVICORN.match(text):
            level, text = match["level"], text[match.end() :]
            owner = owner or Owner("api_server")
        elif owner is None and (match := _NCCL.match(text)):
            owner = self.by_pid.get(int(match["pid"])) or Owner("worker", pid=int(match["pid"]))
            where = "nccl"
        if match := _TORCH_RANK.match(text):
            text = text[match.end() :]
        if "across cluster]" in text:
            text = _REPEATED.sub("", text)
        return Line(number, text, owner, level, where, race, stamp)

    def _ranked(self, owner: Owner, pid: int, text: str) -> Owner:
        """A worker whose prefix names no rank yet, with the one that it told itself."""
        if (match := _OWN_RANK.match(text)) is not None:
            self.by_pid[pid] = replace(owner, rank=int(match["rank"]))
        return self.by_pid.get(pid, owner)

    def _learn(self, owner: Owner) -> None:
        if owner.pid is not None:
            known = self.by_pid.get(owner.pid)
            fuller = known is not None and known.rank is None and owner.rank is not None
            if fuller or (known is None and len(self.by_pid) < _MOST_PIDS):
                self.by_pid[owner.pid] = owner


def _last_return(raw: str) -> str:
    """What stands in the line after its carriage returns wrote over one another: the last part with text."""
    parts = [part for part in raw.split("\r") if part.strip()]
    return parts[-1] if parts else ""


def _owner(name: str, more: str, pid: int) -> Owner:
    low = name.lower()
    if "apiserver" in low or "api_server" in low:
        role = "api_server"
    elif "enginecore" in low or "engine_core" in low or "llmengine" in low or "coordinator" in low:
        role = "engine_core"
    elif "worker" in low:
        role = "worker"
    else:
        role = "none"
    match = _RANK.search(more) or _RANK.search(name)
    return Owner(role, int(next(g for g in match.groups() if g)) if match else None, pid)
