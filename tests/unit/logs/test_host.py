"""The host's evidence, joined to what the log says."""

import pytest

from kit.logs import Diagnosis, conclude
from kit.logs.host import ContainerState, Host, KernelLine
from kit.logs.model import Owner
from kit.logs.reader import Reader
from kit.logs.rules import load
from tests.unit.logs.lines import API, BANNER, ENGINE, READY, START_FAILED, core_error, trace

RULES = load()
OOM = "Nov 29 14:00:00 box kernel: Memory cgroup out of memory: Killed process 7 (VLLM::EngineCor) total-vm:92341232kB"
SEGFAULT = (
    "Nov 29 14:00:00 box kernel: VLLM::EngineCor[7]: segfault at 0 ip 00007f sp 00007f error 4 in libtorch_cpu.so"
)
XID = "Nov 29 14:00:00 box kernel: NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus."
OTHERS = "Nov 29 14:00:00 box kernel: Out of memory: Killed process 99 (firefox) total-vm:92341232kB"


def diagnose(host: Host, *lines: str) -> Diagnosis:
    reader = Reader()
    for number, line in enumerate(lines, start=1):
        reader.feed(number, line)
    reader.finish()
    return conclude(reader, RULES, beside=host)


SILENT = (BANNER, ENGINE, *trace(API, START_FAILED))


@pytest.mark.parametrize(
    ("kernel", "category"), [(OOM, "host-oom-kill"), (SEGFAULT, "native-crash"), (XID, "gpu-hardware")]
)
def test_the_kernel_names_what_a_silent_death_was(kernel: str, category: str) -> None:
    found = diagnose(Host(kernel=(KernelLine(kernel, 100.0),), ended=120.0), *SILENT)
    assert found.root_cause is not None and (found.root_cause.category, found.root_cause.process) == (
        category,
        "engine_core",
    )
    assert any(kernel in quote.text for quote in found.evidence)


def test_other_processes_kills_are_none_of_ours() -> None:
    found = diagnose(Host(kernel=(KernelLine(OTHERS, 100.0),), ended=100.0), *SILENT)
    assert not any("firefox" in quote.text for quote in found.evidence)


@pytest.mark.parametrize(
    ("line", "state", "ended", "ours"),
    [
        (KernelLine(OOM), None, None, True),  # by its pid, which the log names
        (KernelLine(OOM), ContainerState(False, 1), None, False),  # a container's pids are not the host's
        (KernelLine(OOM, 50.0), ContainerState(False, 1), 60.0, True),  # by its name, when the run ended
        (KernelLine(OOM, 50.0), ContainerState(False, 1), 5000.0, False),
        (
            KernelLine("oom-kill: task_memcg=/docker/abc1,task=python,pid=77"),
            ContainerState(False, 1, id="abc1"),
            None,
            True,
        ),
    ],
)
def test_a_kernel_line_is_ours_by_pid_by_container_or_by_name_and_time(
    line: KernelLine, state: ContainerState | None, ended: float | None, ours: bool
) -> None:
    found = diagnose(Host(state, (line,), ended), *SILENT)
    assert any(quote.text.startswith("kernel:") for quote in found.evidence) == ours


@pytest.mark.parametrize(("code", "rule"), [(0, None), (143, "probe-sigterm"), (137, "host-oom-kernel")])
def test_a_start_that_broke_off_is_told_by_its_exit_status(code: int, rule: str | None) -> None:
    found = diagnose(Host(ContainerState(False, code)), BANNER, ENGINE)
    assert found.root_cause is not None and found.root_cause.rule == rule


def test_an_exception_is_not_talked_over() -> None:
    found = diagnose(
        Host(kernel=(KernelLine(OOM, 100.0),), ended=100.0), BANNER, ENGINE, *core_error("KeyError: 'w.weight'")
    )
    assert found.root_cause is not None and found.root_cause.exception == "KeyError: 'w.weight'"


def test_a_running_container_whose_log_ends_in_the_start_is_still_starting() -> None:
    found = diagnose(Host(ContainerState(running=True)), BANNER, ENGINE)
    assert (found.verdict, found.notes) == ("healthy", ("the container is running: the server is still starting",))


@pytest.mark.parametrize(
    ("state", "verdict", "category"),
    [
        (ContainerState(False, 137, oom_killed=True), "failed", "host-oom-kill"),
        (ContainerState(False, 139), "failed", "native-crash"),
        (ContainerState(False, 1), "failed", "unknown"),
        (ContainerState(False, 0), "healthy", None),
        (ContainerState(False, 143), "healthy", None),
    ],
)
def test_the_state_of_the_container_tells_an_end_that_the_log_does_not(
    state: ContainerState, verdict: str, category: str | None
) -> None:
    found = diagnose(Host(state), BANNER, ENGINE, READY)
    assert (found.verdict, found.root_cause.category if found.root_cause else None) == (verdict, category)


def test_a_full_disk_is_noted() -> None:
    assert (
        "/dev/shm has 1 MiB free"
        in diagnose(Host(free=(("/dev/shm", 1 << 20), ("/tmp", 1 << 40))), BANNER, ENGINE, READY).notes
    )


WORKER_GONE = (
    "(EngineCore_DP0 pid=7) ERROR 11-29 14:28:49 [multiproc_executor.py:315] Worker proc VllmWorker-1 died "
    "unexpectedly (exit code: None), shutting down executor."
)


def test_a_worker_killed_by_hand_is_told_from_one_that_the_kernel_ended() -> None:
    gone = (Owner("worker", 1, 85),)
    by_hand = diagnose(Host(oom_kills=0, gone=gone), BANNER, ENGINE, WORKER_GONE).root_cause
    assert by_hand is not None
    assert (by_hand.rule, by_hand.process, by_hand.rank, by_hand.pid) == ("killed-from-outside", "worker", 1, 85)
    assert "no such kill" in by_hand.summary and by_hand.confidence == 0.9
    by_kernel = diagnose(Host(oom_kills=1, gone=gone), BANNER, ENGINE, WORKER_GONE).root_cause
    assert by_kernel is not None and (by_kernel.rule, by_kernel.category) == ("host-oom-kernel", "host-oom-kill")
    unseen = diagnose(Host(), BANNER, ENGINE, WORKER_GONE).root_cause
    assert unseen is not None and unseen.confidence < by_hand.confidence


def test_a_silent_engine_core_that_is_gone_was_killed() -> None:
    found = diagnose(Host(oom_kills=0, gone=(Owner("engine_core", None, 7),)), *SILENT).root_cause
    assert found is not None and (found.rule, found.process, found.pid) == ("killed-from-outside", "engine_core", 7)


@pytest.mark.parametrize(
    ("code", "rule"), [("-9", "killed-from-outside"), ("-11", "silent-death-by-signal"), ("1", "silent-death")]
)
def test_an_exit_code_in_the_log_says_how_it_ended(code: str, rule: str) -> None:
    told = START_FAILED.replace("{}", "{'EngineCore_DP0': " + code + "}")
    assert told != START_FAILED
    lines = (BANNER, ENGINE, *trace(API, told))
    found = diagnose(Host(oom_kills=0, gone=(Owner("engine_core", None, 7),)), *lines).root_cause
    assert found is not None and found.rule == rule


def test_an_api_server_that_takes_its_container_along() -> None:
    state = ContainerState(False, 137)
    found = diagnose(Host(state, oom_kills=0), BANNER, ENGINE).root_cause
    assert found is not None and (found.rule, found.process) == ("killed-from-outside", "api_server")
    uncounted = diagnose(Host(state), BANNER, ENGINE).root_cause
    assert uncounted is not None and uncounted.rule == "host-oom-kernel"


def test_an_exception_stays_the_cause_whoever_is_gone() -> None:
    lines = (BANNER, ENGINE, *core_error("ValueError: No available memory for the cache blocks."))
    found = diagnose(Host(oom_kills=0, gone=(Owner("engine_core", None, 7),)), *lines).root_cause
    assert found is not None and found.category == "kv-cache-too-small"
