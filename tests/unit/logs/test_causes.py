"""Which failure of a run is the first cause, and when there is none."""

import pytest

from kit.logs import Diagnosis, diagnose_lines
from tests.unit.logs.lines import (
    API,
    BANNER,
    CORE,
    ENGINE,
    READY,
    SERVED,
    START_FAILED,
    STOP,
    W0,
    W1,
    WAIT,
    core_error,
    trace,
    worker_error,
)

DIRECT = "The above exception was the direct cause of the following exception:"
WORKER_NEWS = "Exception: WorkerProc initialization failed due to an exception in a background process."


def diagnose(*parts: str | list[str]) -> Diagnosis:
    return diagnose_lines([line for part in parts for line in ([part] if isinstance(part, str) else part)], rules=())


def root(diagnosis: Diagnosis) -> tuple[str, int | None, str, int | None]:
    cause = diagnosis.root_cause
    assert cause is not None
    return cause.process, cause.rank, cause.exception, cause.line


def test_the_earliest_worker_is_the_cause_and_the_rest_is_the_chain() -> None:
    lines = [BANNER, ENGINE, *worker_error(W1, "ValueError: mine"), *worker_error(W0, "ValueError: also"),
             *core_error(WORKER_NEWS),
             *trace(API, START_FAILED)]  # fmt: skip
    found = diagnose(lines)
    assert root(found) == (
        "worker",
        1,
        "ValueError: mine",
        lines.index(f"{W1} ERROR 01-02 03:05:00 [multiproc_executor.py:9] ValueError: mine") + 1,
    )
    assert [link.process for link in found.chain] == ["worker", "worker", "engine_core", "api_server"]
    assert (found.runs, found.lines, found.version) == (1, len(lines), "0.17.0")


def test_interleaved_ranks_are_kept_apart() -> None:
    one, two = worker_error(W0, "KeyError: 'a'"), worker_error(W1, "KeyError: 'b'")
    woven = [line for pair in zip(two, one, strict=True) for line in pair]
    assert root(diagnose(BANNER, ENGINE, woven))[:3] == ("worker", 1, "KeyError: 'b'")


def test_news_of_a_silent_worker_blames_the_worker() -> None:
    found = diagnose(BANNER, ENGINE, core_error(WORKER_NEWS),
                     trace(API, START_FAILED))  # fmt: skip
    assert root(found)[0] == "worker"
    assert root(found)[3] == 7


def test_news_of_a_silent_engine_blames_the_engine() -> None:
    assert root(diagnose(BANNER, ENGINE, trace(API, START_FAILED)))[0] == "engine_core"


def test_the_quoted_error_is_taken_when_it_is_the_only_copy() -> None:
    found = diagnose(
        BANNER,
        ENGINE,
        core_error("RuntimeError: Worker failed with error 'no such kernel', please check the stack trace"),
    )
    assert root(found)[:3] == ("worker", None, "no such kernel")


def test_a_death_is_the_cause_only_when_nothing_was_said_before() -> None:
    died = (
        f"{CORE} ERROR 01-02 03:05:01 [multiproc_executor.py:9] Worker proc VllmWorker-1 died unexpectedly, shutting."
    )
    assert root(diagnose(BANNER, ENGINE, READY, died, core_error("RuntimeError: cancelled")))[:2] == ("worker", 1)
    assert root(diagnose(BANNER, ENGINE, worker_error(W1, "OSError: x"), died))[2] == "OSError: x"


def test_a_native_line_without_a_name_belongs_to_who_is_reported_dead() -> None:
    died = f"{API} ERROR 01-02 03:05:01 [core_client.py:5] Engine core proc EngineCore_DP0 died unexpectedly, shutting."
    found = diagnose(
        BANNER, ENGINE, "!!!!!!! Segfault encountered !!!!!!!", '  File "<unknown>", line 0, in cuMemCreate', died
    )
    assert root(found) == ("engine_core", 0, "!!!!!!! Segfault encountered !!!!!!!", 3)


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ("Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.", ("worker", 1)),
        ("RayWorkerProc rank=3 died unexpectedly, shutting down executor.", ("worker", 3)),
        ("Engine core proc EngineCore_DP2 died unexpectedly, shutting down client.", ("engine_core", 2)),
        ("[shutdown] MPClient: engine core exited unexpectedly; starting cleanup", ("engine_core", None)),
        ("Process EngineCore_0 (PID: 12) died with exit code -11", ("engine_core", None)),
    ],
)
def test_who_died_is_read_from_the_news_of_it(line: str, who: tuple[str, int | None]) -> None:
    assert root(diagnose(BANNER, ENGINE, READY, f"{API} ERROR 01-02 03:05:01 [x.py:5] {line}"))[:2] == who


@pytest.mark.parametrize("code", ["0", "-15"])
def test_ends_that_were_asked_for_are_innocent(code: str) -> None:
    died = (
        f"ERROR 07-26 16:21:37 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 328 died, exit code: {code}"
    )
    assert diagnose(BANNER, ENGINE, READY, SERVED, died).verdict == "healthy"


def test_what_follows_a_stop_that_was_asked_for_is_no_failure() -> None:
    late = trace(API, "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
                 header="ERROR 01-02 04:00:01 [async_llm.py:9] ", intro="AsyncLLM output_handler failed.")  # fmt: skip
    assert diagnose(BANNER, ENGINE, READY, SERVED, STOP, late).verdict == "healthy"


def test_a_stop_that_follows_a_failure_changes_nothing() -> None:
    found = diagnose(BANNER, ENGINE, READY, core_error("KeyError: 1", "EngineCore encountered a fatal error."), STOP)
    assert root(found)[2] == "KeyError: 1"


def test_a_stop_before_the_server_was_up_is_a_failure() -> None:
    assert diagnose(BANNER, ENGINE, STOP).verdict == "failed"


def test_errors_of_one_request_are_not_the_servers() -> None:
    request = trace(
        API,
        "ValueError: too long",
        header="ERROR 01-02 04:00:00 [serving_chat.py:9] ",
        intro="Error in preprocessing prompt inputs",
    )
    asgi = [f"{API} ERROR:    Exception in ASGI application", *trace("", "ValueError: x")]
    assert diagnose(BANNER, ENGINE, READY, SERVED, request, asgi).verdict == "healthy"


def test_a_failure_that_the_start_survived_is_none() -> None:
    helper = [line.strip() for line in trace("", "ImportError: optional")]
    assert diagnose(BANNER, helper, ENGINE, READY, SERVED).verdict == "healthy"


def test_a_failure_of_something_else_before_the_server_began_is_none() -> None:
    assert (
        root(diagnose(trace("", "KeyError: 'script'"), BANNER, ENGINE, core_error("KeyError: 'engine'")))[2]
        == "KeyError: 'engine'"
    )


def test_the_last_of_several_runs_decides() -> None:
    bad, good = [BANNER, ENGINE, *core_error("KeyError: 1"), *trace(API, START_FAILED)], [BANNER, ENGINE, READY, SERVED]
    assert (diagnose(bad, good).verdict, diagnose(bad, good).runs) == ("healthy", 2)
    assert root(diagnose(good, bad))[2] == "KeyError: 1"


def test_of_a_last_run_that_has_only_begun_the_one_before_is_told() -> None:
    found = diagnose(BANNER, ENGINE, core_error("KeyError: 1"), trace(API, START_FAILED), BANNER)
    assert root(found)[2] == "KeyError: 1"
    assert "only begun" in found.notes[0]


def test_a_wait_that_ends_is_normal_and_one_that_does_not_is_a_hang() -> None:
    assert diagnose(BANNER, ENGINE, WAIT, WAIT, WAIT, READY).verdict == "healthy"
    assert root(diagnose(BANNER, ENGINE, WAIT, WAIT, WAIT))[3] == 3
    busy = (
        f"{API} INFO 01-02 03:06:0 [loggers.py:9] Avg prompt throughput: 1, Avg generation throughput: 9.0 tokens/s, 3%"
    )
    assert diagnose(BANNER, ENGINE, READY, WAIT, WAIT, busy, WAIT).verdict == "healthy"
    assert diagnose(BANNER, ENGINE, READY, WAIT, WAIT, busy.replace("9.0 t", "0.0 t"), WAIT).verdict == "failed"
    timeout = core_error("TimeoutError: RPC call to execute_model timed out.", "EngineCore encountered a fatal error.")
    assert root(diagnose(BANNER, ENGINE, READY, WAIT, timeout))[:1] + root(
        diagnose(BANNER, ENGINE, READY, WAIT, timeout)
    )[3:] == ("worker", 4)


def test_a_log_that_ends_in_the_start_is_a_failure_of_who_is_watched_by_nobody() -> None:
    assert root(diagnose(BANNER, ENGINE))[:1] == ("api_server",)


def test_a_log_cut_inside_a_traceback_tells_the_process() -> None:
    found = diagnose(BANNER, ENGINE, worker_error(W1, "KeyError: 1")[:3])
    assert (found.verdict, *root(found)[:2]) == ("failed", "worker", 1)


def test_a_containers_exit_status_without_a_word_is_a_failure() -> None:
    assert root(diagnose(BANNER, ENGINE, READY, "vllm exited with code 137"))[0] == "container"
    assert diagnose(BANNER, ENGINE, READY, STOP, "vllm exited with code 143").verdict == "healthy"


def test_the_first_exception_of_a_chain_is_the_cause() -> None:
    chained = [*trace(W0, "queue.Empty")[:-1], f"{W0} OSError: disk", f"{W0} ", f"{W0} {DIRECT}",
               f"{W0} ", *trace(W0, "RuntimeError: loading failed")]  # fmt: skip
    assert root(diagnose(BANNER, ENGINE, chained, trace(API, START_FAILED)))[2] == "OSError: disk"


def test_a_traceback_that_uvicorn_heads_is_read_and_closed() -> None:
    headed = [
        f"{API} ERROR:    Traceback (most recent call last):",
        '  File "/v/starlette/routing.py", line 1, in lifespan',
        "    x",
        "OSError: template",
    ]
    found = diagnose(BANNER, ENGINE, headed, f"{API} ERROR:    Application startup failed. Exiting.")
    assert root(found)[2] == "OSError: template"
    assert diagnose(BANNER, ENGINE, headed[:3], READY, SERVED, [SERVED] * 300).verdict == "healthy"


def test_an_api_server_that_fails_stops_its_engine_first_and_is_the_cause() -> None:
    teardown = [
        f"{API} INFO 01-02 04:00:00 [core_client.py:770] [shutdown] MPClient: start timeout=0s",
        f"{CORE} INFO 01-02 04:00:00 [core.py:1454] [shutdown] EngineCore: trigger received signal=SIGTERM",
        f"{API} INFO 01-02 04:00:00 [core_client.py:777] [shutdown] MPClient: complete",
        "Traceback (most recent call last):",
        '  File "/v/vllm/entrypoints/cli/main.py", line 120, in main',
        '  File "/v/uvicorn/config.py", line 131, in create_ssl_context',
        "FileNotFoundError: [Errno 2] No such file or directory",
    ]
    starting = f"{API} INFO 01-02 03:59:00 [api_server.py:9] Starting vLLM server on https://127.0.0.1:8000"
    assert root(diagnose(BANNER, ENGINE, starting, teardown))[::3] == ("api_server", 10)


def test_a_port_taken_after_the_start_is_a_failure() -> None:
    bind = f"{API} ERROR:    [Errno 98] error while attempting to bind on address: already in use"
    assert root(diagnose(BANNER, ENGINE, READY, bind, f"{API} INFO:     Application shutdown complete."))[3] == 4


@pytest.mark.parametrize(
    "quoted",
    [
        "prompt: 'Explain: Traceback (most recent call last):', params: SamplingParams(n=1)",
        "prompt: 'Segfault encountered !!!!!!! Segfault encountered', params: SamplingParams(n=1)",
        "prompt: 'x.c:1:1: fatal error: y.h: No such file', params: SamplingParams(n=1)",
    ],
)
def test_what_users_ask_about_is_no_failure(quoted: str) -> None:
    asked = f"{API} INFO 01-02 04:00:00 [logger.py:41] Received request cmpl-1: {quoted}"
    assert diagnose(BANNER, ENGINE, READY, asked, SERVED, asked).verdict == "healthy"
    offline = f"Prompt: 'Hi', Generated text: '{quoted}'"
    assert diagnose(BANNER, ENGINE, READY, offline, SERVED).verdict == "healthy"


def test_helpers_of_python_that_fail_at_the_end_are_innocent() -> None:
    helper = [
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3/multiprocessing/resource_tracker.py", line 2, in main',
        "    x",
        "KeyError: '/psm_1'",
    ]
    assert diagnose(BANNER, ENGINE, READY, SERVED, helper).verdict == "healthy"
    thread = [
        "Exception in thread Thread-3 (_report_usage_worker):",
        *[line.strip("\n") for line in trace("", "OSError: x")],
    ]
    assert diagnose(BANNER, ENGINE, READY, SERVED, thread).verdict == "healthy"


def test_an_engine_error_whose_words_nobody_knew_comes_before_what_the_api_server_made_of_it() -> None:
    engine = trace(CORE, "ValueError: deep", header="ERROR 01-02 03:05:00 [core.py:9] ", intro="Engine gave up.")
    assert root(diagnose(BANNER, ENGINE, engine, trace(API, "RuntimeError: no engine")))[:3:2] == (
        "engine_core",
        "ValueError: deep",
    )


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("systemd[1]: vllm.service: Main process exited, code=killed, status=9/KILL", "failed"),
        ("command terminated with exit code 137", "failed"),
        ("srun: error: node7: task 0: Segmentation fault (core dumped)", "failed"),
        ("systemd[1]: vllm.service: Main process exited, code=exited, status=0/SUCCESS", "healthy"),
    ],
)
def test_supervisors_tell_how_it_ended(line: str, verdict: str) -> None:
    assert diagnose(BANNER, ENGINE, READY, SERVED, line).verdict == verdict


@pytest.mark.parametrize(
    "line",
    [
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        "/bin/sh: 1: vllm: command not found",
    ],
)
def test_where_no_process_of_the_server_ever_spoke_it_is_the_container(line: str) -> None:
    assert root(diagnose(line))[::3] == ("container", 1)


def test_several_api_servers_are_one_run() -> None:
    many = [
        BANNER,
        *(
            f"(ApiServer_{n} pid={n + 20}) INFO 01-02 03:04:00 [utils.py:9] non-default args: {{'model': '/m'}}"
            for n in range(4)
        ),
    ]
    assert diagnose(many, ENGINE, READY, SERVED).runs == 1


def test_a_second_banner_is_a_second_run_though_the_first_said_nothing() -> None:
    assert diagnose(BANNER, BANNER, ENGINE, READY).runs == 2


def test_nothing_is_nothing() -> None:
    assert diagnose([]).verdict == "healthy"
    assert diagnose(["", "", "hello"]).verdict == "healthy"
