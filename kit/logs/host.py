"""What the host knows beyond the log, joined to what the log says. Pure: `collect` gathers it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kit.logs import rules as ruling
from kit.logs.model import UNKNOWN, Failure, Owner, Quote
from kit.logs.naming import Cause
from kit.logs.rules import Company, Rule
from kit.logs.run import Run


@dataclass(frozen=True, slots=True)
class ContainerState:
    """What the container engine says: `running`, exit code, whether the kernel's OOM killer acted, restarts, its id."""

    running: bool
    exit_code: int | None = None
    oom_killed: bool = False
    restarts: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class KernelLine:
    """A line of the kernel's log and its time (seconds since 1970), where it bears one."""

    text: str
    time: float | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """Evidence from outside the log; each piece optional.

    `ended` is when the run ended or the log was last written (seconds since 1970), `free` is free
    space in bytes by path. `oom_kills` is how many processes of the container the kernel ended for want of memory
    (None: nobody counted); `gone` are processes that had ended while others of the server went on.
    """

    container: ContainerState | None = None
    kernel: tuple[KernelLine, ...] = ()
    ended: float | None = None
    free: tuple[tuple[str, int], ...] = ()
    oom_kills: int | None = None
    gone: tuple[Owner, ...] = ()


_KERNEL = (
    ("oom", re.compile(r"out of memory: Killed process (?P<pid>\d+)|oom-kill:.*\bpid=(?P<pid2>\d+)|oom_reaper", re.I)),
    (
        "crash",
        re.compile(r"\[(?P<pid>\d+)\]: segfault at|traps: \S+\[(?P<pid2>\d+)\]|\[(?P<pid3>\d+)\] general protection"),
    ),
    ("xid", re.compile(r"NVRM: Xid")),
)
# what the kernel calls vLLM's processes (their titles, cut to 15 characters)
_OURS = re.compile(r"VLLM::|vllm|EngineCor|ray::")
# a kernel's line about a process of another pid namespace is ours only near the end of the run, seconds
_AROUND = 90.0
# found without a word of the process itself: here the host may know better
_WORDLESS = ("silent", "ended", "quoted")
_TEXT = {
    "oom": "Memory cgroup out of memory: Killed process",
    "crash": "died with exit code -11: Segmentation fault",
    "xid": "NVRM: Xid",
    "killed": "died with exit code -9, not by the kernel",
}
_FULL = 64 << 20
_EXIT = re.compile(r"(?:exit code:? |': )(-?\d+)")


def join(
    cause: Cause | None, run: Run, host: Host | None, rules: Sequence[Rule]
) -> tuple[Cause | None, list[str], list[Quote]]:
    """The cause in the light of the host's evidence, notes about it, and quotes (line 0: not from the log)."""
    if host is None:
        return cause, [], []
    notes: list[str] = []
    quotes: list[Quote] = []
    state = host.container
    if state is not None and state.running and cause is not None and cause.basis == "ended":
        return None, ["the container is running: the server is still starting"], []
    for path, free in host.free:
        if free < _FULL:
            notes.append(f"{path} has {free / (1 << 20):.0f} MiB free")
    kind = _from_kernel(host, run, quotes)
    if host.oom_kills:
        kind = kind or "oom"
        quotes.append(Quote(0, f"kernel: {host.oom_kills} processes of this container ended for want of memory"))
    if state is not None and not state.running:
        kind = kind or _from_state(state, host.oom_kills)
        if state.exit_code is not None:
            oom = ", ended by the out-of-memory killer" if state.oom_killed else ""
            again = f", restarted {state.restarts} times" if state.restarts else ""
            notes.append(f"the container ended with status {state.exit_code}{oom}{again}")
    if state is not None and cause is not None and cause.basis == "ended" and not cause.exception and kind is None:
        cause = _ended_with(cause, state, run, rules)
    weak = cause is None or cause.basis in _WORDLESS or cause.failure.kind == "death"
    if kind is None and host.oom_kills == 0 and cause is not None and weak and _died(cause, host):
        kind = "killed"
    if kind == "killed" and cause is not None:
        cause = replace(cause, owner=_whose(_victim(cause), host, state), detail="")
    if kind is not None and (weak or (kind == "xid" and cause is not None and cause.category in _CARD)):
        return _as(kind, cause, run, rules), notes, quotes
    if cause is None and state is not None and not state.running and state.exit_code not in (None, 0, 130, 143):
        return _unexplained(run, state.exit_code or 0), notes, quotes
    return cause, notes, quotes


_CARD = (UNKNOWN, "native-crash", "nccl-comm", "gpu-p2p", "timeout-hang")


def _from_kernel(host: Host, run: Run, quotes: list[Quote]) -> str | None:
    """What the kernel did to a process of this run, as far as pid, container or name and time say that it was one."""
    pids = {line.owner.pid for line in run.roles.values() if line.owner and line.owner.pid}
    inside = host.container is not None  # its pids are not the host's
    kinds = []
    for line in host.kernel:
        for kind, pattern in _KERNEL:
            match = pattern.search(line.text)
            if match is None:
                continue
            known = not inside and any(int(g) in pids for g in match.groups() if g)
            named = bool(host.container and host.container.id and host.container.id in line.text)
            near = line.time is not None and host.ended is not None and abs(line.time - host.ended) < _AROUND
            if known or named or (near and (kind == "xid" or _OURS.search(line.text))):
                kinds.append(kind)
                quotes.append(Quote(0, f"kernel: {line.text.strip()[:300]}"))
            break
    return next((kind for kind in ("xid", "oom", "crash") if kind in kinds), None)


def _from_state(state: ContainerState, oom_kills: int | None) -> str | None:
    if state.oom_killed:
        return "oom"
    by_kill = "oom" if oom_kills is None else "killed"
    return {137: by_kill, 139: "crash", 134: "crash", 132: "crash", 136: "crash"}.get(state.exit_code or 0)


def _died(cause: Cause, host: Host) -> bool:
    """Whether the process of a wordless end is gone, and by SIGKILL: a crash is told by Python's fault handler or, as
    a number, by the process that waits for it."""
    codes = _EXIT.findall(f"{cause.exception} {cause.failure.exception}")
    if cause.basis == "quoted" or (codes and not {"-9", "137"} & set(codes)):
        return False
    return any(owner.role == _victim(cause).role for owner in host.gone)


def _victim(cause: Cause) -> Owner:
    """Who died: of a death that another process reports the one that is named, not who reports it."""
    return cause.failure.owner if cause.failure.kind == "death" else cause.owner


def _whose(owner: Owner, host: Host, state: ContainerState | None) -> Owner:
    """The process that was killed, as exactly as is known: a container ends with 137 when its first process is."""
    if state is not None and not state.running and state.exit_code == 137 and owner.role == "container":
        return Owner("api_server")
    same = [other for other in host.gone if other.role == owner.role]
    return same[0] if len(same) == 1 and owner.pid in (None, same[0].pid) else owner


def _ended_with(cause: Cause, state: ContainerState, run: Run, rules: Sequence[Rule]) -> Cause:
    """A start that broke off, by the status it ended with: it was told to stop, or it ended by itself."""
    if state.exit_code in (130, 143):
        rule = ruling.best(rules, "told to stop before it was ready", Company(stage=run.stage, kind="ended"))
        return replace(cause, rule=rule, category=rule.category if rule else UNKNOWN)
    return replace(cause, rule=None, category=UNKNOWN)


def _as(kind: str, cause: Cause | None, run: Run, rules: Sequence[Rule]) -> Cause:
    """The cause named by what the host saw; where in the log it shows stays."""
    text = _TEXT[kind]
    if cause is None:
        failure = Failure("death", Owner("container"), run.last_line, "", run.stage)
        cause = Cause(failure, failure.owner, None, "", run.stage, None, "host")
    rule = ruling.best(rules, text, Company(stage=cause.stage, kind="death"))
    basis = "killed" if kind == "killed" else "host"
    return replace(cause, rule=rule, category=rule.category if rule else UNKNOWN, basis=basis)


def _unexplained(run: Run, code: int) -> Cause:
    failure = Failure("ended", Owner("container"), run.last_line, "", run.stage)
    return Cause(failure, failure.owner, None, f"exited with code {code}", run.stage, None, "ended")
