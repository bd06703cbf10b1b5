"""Takes off what others put before a line and says which process wrote it.

Styles seen from vLLM 0.4 to 0.33: no prefix at all; `(VllmWorker rank=N pid=P)`; `(EngineCore_DPn pid=P)`,
`(Worker_TPn_EPn pid=P)`; a worker's line relayed by its parent (two prefixes); Ray's `(RayWorkerWrapper
pid=P, ip=A)`. Before those stand the marks of docker, compose, Kubernetes and journald, and colours.
"""

from __future__ import annotations

import json
import re

from kit.logs.model import Line, Owner

_COLOUR = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|(?<![\w\]])\[[0-9]{1,3}(?:;[0-9]{1,3})*m"
)
_OUTER = (
    # docker -t, Kubernetes CRI, journald -o short-iso: an RFC 3339 stamp, perhaps "stderr F", perhaps "host unit[pid]:"
    re.compile(
        r"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\s(?:(?:stdout|stderr) [FP] ?)?"
        r"(?:[\w.-]+ [\w@.:\\-]+\[\d+\]: ?)?"
    ),
    # journald -o short and syslog
    re.compile(r"(?P<stamp>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?) [\w.-]+ [^\s:\[]+(?:\[\d+\])?: ?"),
    # docker compose and docker service logs
    re.compile(r"(?P<label>[A-Za-z0-9][\w.@-]*) *\| ?(?!\|)"),
    # kubectl logs --prefix
    re.compile(r"\[pod/(?P<label>[^\]\s]+)\] ?"),
)
_PROCESS = re.compile(r"\((?P<name>[A-Za-z][\w:.+/-]*)(?P<more>(?: [\w=.+-]+)*?) pid=(?P<pid>\d+)(?:, ip=[^)]*)?\) ?")
_RANK = re.compile(r"rank[=:]? ?(\d+)|(?:TP|PP|DP)(\d+)|[-_](\d+)$")
_HEADER = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<stamp>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?) "
    r"\[?(?P<where>[\w./-]+\.py):\d+\] ?"
)
_TORCH_RANK = re.compile(r"\[rank(\d+)\]: ?(?!\[)")
_NCCL = re.compile(r"[\w.-]+:(?P<pid>\d+):\d+ \[(?:\d+|\w+)\] ")
_UVICORN = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL): {4,}")

# the file a header names -> the process that logs from it, for versions that print no prefix
_API_FILES = frozenset(
    ("api_server.py", "async_llm.py", "core_client.py", "launcher.py", "cli_args.py", "arg_utils.py", "loggers.py")
    + ("metrics.py", "hf.py", "client.py", "config.py", "model.py", "utils.py", "api_utils.py", "entry.py", "serve.py")
    + ("speculative.py", "vllm.py")
)


_MOST_PIDS = 4096


class Names:
    """Reads lines of one log; remembers which pid belongs to which process."""

    def __init__(self) -> None:
        self.by_pid: dict[int, Owner] = {}

    def read(self, number: int, raw: str) -> Line:
        """One line, without its newline, as a Line."""
        text, stamp, label = raw, None, None
        if text.startswith('{"log":') or text.startswith('{"stream":'):
            text = _json_log(text)
        if "\x1b" in text or "[0;" in text or "m(" in text:
            text = _COLOUR.sub("", text)
        text, stamp, label = _outer(text)
        text = text[text.rfind("\r", 0, len(text) - 1) + 1 :].rstrip("\r") if "\r" in text else text
        owner, race = None, None
        while text.startswith("(") and (match := _PROCESS.match(text)):
            found = _owner(match["name"], match["more"], int(match["pid"]))
            if owner is not None and owner.role == found.role and owner.pid != found.pid:
                race = found  # two of a kind wrote at once: the second one's text follows bare
            else:
                owner = found  # relayed by a parent: the inner one wrote it
            self._learn(found)
            text = text[match.end() :]
        level, where = None, None
        if match := _HEADER.match(text):
            level, where, stamp = match["level"], match["where"].rsplit("/", 1)[-1], match["stamp"]
            text = text[match.end() :]
            if owner is None:
                owner = Owner("api_server" if where in _API_FILES or where.startswith("serving") else "engine_core")
        elif match := _UVICORN.match(text):
            level, where, text = match["level"], "uvicorn", text[match.end() :]
            owner = owner or Owner("api_server")
        elif owner is None and (match := _NCCL.match(text)):
            owner = self.by_pid.get(int(match["pid"])) or Owner("worker", pid=int(match["pid"]))
            where = "nccl"
        elif match := _TORCH_RANK.match(text):
            text = text[match.end() :]
        return Line(number, text, owner, level, where, stamp, label, race)

    def _learn(self, owner: Owner) -> None:
        if owner.pid is not None:
            known = self.by_pid.get(owner.pid)
            fuller = known is not None and known.rank is None and owner.rank is not None
            if fuller or (known is None and len(self.by_pid) < _MOST_PIDS):
                self.by_pid[owner.pid] = owner


def _json_log(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    log = value.get("log") if isinstance(value, dict) else None
    return log.rstrip("\n") if isinstance(log, str) else text


def _outer(text: str) -> tuple[str, str | None, str | None]:
    stamp = label = None
    for _ in range(3):
        for pattern in _OUTER:
            if match := pattern.match(text):
                found = match.groupdict()
                stamp, label = found.get("stamp") or stamp, found.get("label") or label
                text = text[match.end() :]
                break
        else:
            break
    return text, stamp, label


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
