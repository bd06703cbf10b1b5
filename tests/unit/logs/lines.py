"""Lines that tests build small logs of."""

API = "(APIServer pid=1)"
CORE = "(EngineCore pid=7)"
W0, W1 = "(Worker_TP0 pid=8)", "(Worker_TP1 pid=9)"
BANNER = f"{API} INFO 01-02 03:04:00 [api_server.py:9] vLLM API server version 0.17.0"
ENGINE = f"{CORE} INFO 01-02 03:04:10 [core.py:77] Initializing a V1 LLM engine (v0.17.0) with config: model='/m'"
READY = f"{API} INFO:     Application startup complete."
SERVED = f'{API} INFO:     10.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK'
WAIT = (
    f"{CORE} INFO 01-02 03:05:10 [shm_broadcast.py:5] No available shared memory broadcast block found in 60 seconds."
)
START_FAILED = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
STOP = f"{API} INFO 01-02 04:00:00 [launcher.py:9] [shutdown] API server: shutdown triggered"


def trace(who: str, error: str, *, header: str = "", intro: str = "", file: str = "vllm/x.py") -> list[str]:
    lines = [
        *([intro] if intro else []),
        "Traceback (most recent call last):",
        f'  File "/v/{file}", line 1, in f',
        "    x",
        error,
    ]
    return [f"{who} {header}{line}" for line in lines]


def worker_error(who: str, error: str) -> list[str]:
    return trace(
        who, error, header="ERROR 01-02 03:05:00 [multiproc_executor.py:9] ", intro="WorkerProc failed to start."
    )


def core_error(error: str, intro: str = "EngineCore failed to start.") -> list[str]:
    return trace(CORE, error, header="ERROR 01-02 03:05:01 [core.py:9] ", intro=intro)
