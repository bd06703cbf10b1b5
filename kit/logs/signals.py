"""What single lines and exception texts mean, whatever the cause: the mechanism's own vocabulary.

Nothing here names a cause; rules do that. Here is known who passes on whose news, who died, what
starts or ends a run, what stage it is in, and what a server survives.
"""

from __future__ import annotations

import re

# text of an exception or an error line -> the role whose failure it only passes on
_PASSED_ON = (
    ("Engine core initialization failed", "engine_core"),
    ("Engine process failed to start", "engine_core"),
    ("EngineDeadError", "engine_core"),
    ("EngineCore encountered an issue", "engine_core"),
    ("Engine loop is not running", "engine_core"),
    ("Background loop has errored already", "engine_core"),
    ("Engine loop has died", "engine_core"),
    ("AsyncLLM output_handler failed", "engine_core"),
    ("Got fatal signal from worker processes", "engine_core"),
    ("Failed core proc(s)", "engine_core"),
    ("WorkerProc initialization failed", "worker"),
    ("Worker failed with error", "worker"),
    ("got fatal signal from worker", "worker"),
    ("Executor failed.", "worker"),
    ("The actor died", "worker"),
    ("RayActorError", "worker"),
    ("ActorDiedError", "worker"),
    ("ActorUnavailableError", "worker"),
    ("Connection closed by remote peer", "worker"),
    ("Connection closed by peer", "worker"),
    ("remote process exited or there was a network error", "worker"),
    ("Broken pipe", "worker"),
    ("BrokenPipeError", "worker"),
    ("Connection reset by peer", "worker"),
    ("ConnectionResetError", "worker"),
    ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "worker"),
    ("ProcessRaisedException", "worker"),
    ("ProcessExitedException", "worker"),
    ("ZMQError: Operation not supported", "engine_core"),
    ("ZMQError: Context was terminated", "engine_core"),
    ("ZMQError: Socket operation on non-socket", "engine_core"),
)
_PASSED_EXACT = {
    "RuntimeError: cancelled": "worker",
    "EOFError": "worker",
    "SystemExit": "engine_core",
    "SystemExit: ": "engine_core",
    "SystemExit: 1": "engine_core",
    "asyncio.exceptions.CancelledError": "engine_core",
    "concurrent.futures._base.CancelledError": "worker",
    "KeyboardInterrupt": "none",
}
# how a process announces the traceback that ends it
_FATAL_INTRO = (
    "EngineCore failed to start",
    "EngineCore encountered a fatal error",
    "EngineCore hit an exception",
    "WorkerProc failed to start",
    "WorkerProc hit an exception",
    "Exception in worker",
    "Error executing method",
    "Engine background task failed",
    "output_handler failed",
    "MQLLMEngine",
    "Application startup failed",
    "Process ",
)
# what is printed beside a failure and is never one
_HARMLESS_INTRO = (
    "Exception ignored in",
    "--- Logging error ---",
    "Error in sys.excepthook",
    "Error in atexit",
    "Exception in thread",
    "never retrieved",
    "Exception ignored on",
)
_REQUEST_INTRO = (
    "Exception in ASGI application",
    "Error in preprocessing prompt",
    "Error in applying chat template",
    "Error in parsing tool",
    "Error in extracting tool call",
    "Error in tool parser",
    "Error in reasoning parser",
    "Error in request",
    "Error trying to handle streaming tool call",
    "Error in chat completion stream generator",
    "Error in completion stream generator",
    "Failed to load image",
    "Failed to apply",
    "failed with an internal error during generation",
    "Exception caught. Request id",
    "Unexpected error pre-processing request",
    "Invocation of ",
    "Failed to compile grammar",
    "Failed to advance FSM",
    "Error preparing request components",
    "Error with model",
    "Background request failed",
    "stream generator",
)
_DIED = re.compile(r"(?:died|exited) unexpectedly")
_DIED_WHO = re.compile(r"(?P<worker>[Ww]orker)|[Ee]ngine")
_DIED_RANK = re.compile(r"[-_=](?:DP)?(?P<rank>\d+) $")
CHILD_DIED = re.compile(
    r"(?:Worker \w+ pid (?P<pid>\d+) died, exit code: |Process (?P<name>\S+) \(PID: \d+\) died with exit code )"
    r"(?P<code>-?\d+)"
)
CORE_PROCS = re.compile(r"Failed core proc\(s\): \{(?P<who>[^}]*)\}")
EXITED = re.compile(
    r"^(?P<name>[\w.-]+) exited with code (?P<code>\d+)|^command terminated with exit code (?P<code2>\d+)"
    r"|Main process exited, code=(?P<how>killed|dumped|exited), status=(?P<code3>\d+)"
)
KILLED = re.compile(
    r"^(?:.*\b(?:line \d+|bash|sh): *\d+ |srun: error: .*: )?"
    r"(?P<what>Killed|Segmentation fault|Bus error|Illegal instruction|Aborted)(?: *\(core dumped\))?(?:\s{2,}.*)?$"
)
# a native failure or a tool's own words for one: no Python exception need follow
NATIVE = re.compile(
    r"!{3,} *Segfault encountered|\*\*\* SIG[A-Z]+ received|^Fatal Python error: |^terminate called (?:after|without)"
    r"|double free or corruption|corrupted (?:size vs\. prev_size|double-linked list)"
    r"|^(?:malloc|free|realloc|munmap_chunk|malloc_consolidate|tcache_thread_shutdown)\(\): \w"
    r"|\*\*\* stack smashing detected|Assertion `[^`]*['`] failed|: Assertion .* failed\.?$|^Failed: Cuda error"
    r"|ptxas fatal|nvcc fatal|\bfatal error: |^collect2: error|^ninja: (?:error|fatal)|ld: cannot find"
    r"|symbol lookup error|error while loading shared libraries|Watchdog caught collective operation timeout"
    r"|watchdog got stuck|watchdog thread terminated with exception"
    r"|Some NCCL operations have failed or timed out|\b[Oo]ut of memory: Killed process\b"
    r"|oom-kill:|Memory cgroup out of memory|NVRM: Xid|OCI runtime create failed|Error response from daemon"
    r"|^(?:\S+: )?(?:(?:line )?\d+: )?\S+: (?:command not found|cannot execute binary file)|^\S+: \d+: \S+: not found$"
    r"|error while attempting to bind on address|\bOOMKilled\b|oom_kill event|Signal \d+ \(SIG[A-Z]+\) received by PID"
    r"|nvidia-container-cli: |^(?:docker: )?exec: \S+: (?:executable file not found|stat )"
    r"|Task was killed due to the node running low on memory|has been marked dead because"
)
# lines that go on with the native failure of the line before
MORE_NATIVE = re.compile(r"^ *what\(\): |nvidia-container-cli: ")
NOTICE = re.compile(
    r"NCCL WARN |OpenBLAS blas_thread_init: pthread|libgomp: Thread creation failed"
    r"|is not compatible with the current PyTorch installation|[Nn]ot enough free disk space"
)
USAGE = re.compile(r"^(?P<program>[\w./ -]+?): error: (?P<message>.+)$")
ORPHAN = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:\([\w.]+\))?: \S")
HANG = "No available shared memory broadcast block found"
ACCEPTANCE = "SpecDecoding metrics:"

START = re.compile(
    r"vLLM API server version (?P<old>\S+)|█[^█]*\bversion (?P<new>\d\S*)|^usage: (?:vllm |api_server)"
    r"|^Initializing an? (?:V\d )?LLM engine \(v(?P<engine>[^)\s]+)\)"
)
IMPORTS = re.compile(r"Automatically detected platform|No platform detected|^Starting vLLM\b")
ARGUMENTS = re.compile(r"non-default args: |^args: Namespace\(")
READY = re.compile(r"Application startup complete|Uvicorn running on|Starting vLLM (?:API )?server")
OFFLINE = re.compile(r"Processed prompts: 100%")
SERVED = re.compile(r'"(?:POST|GET) (?P<path>/\S*) HTTP/[\d.]+" (?P<status>\d{3})')
STOPPED = re.compile(r"Application shutdown complete|Finished server process")
# someone outside asked the server to stop; all that follows is that stop's doing
TOLD = re.compile(
    r"API server: shutdown triggered|Received SIG(?:TERM|INT)|SIG(?:TERM|INT) received|Gracefully stopping"
    r"|Shutting down FastAPI HTTP server|KeyboardInterrupt: terminated"
)
# the stop is under way; who began it is not said (an API server that fails sends its engine SIGTERM too)
STOPPING = re.compile(
    r"^Shutting down$|^Killing local vLLM worker processes|received signal=SIG(?:TERM|INT)|MPClient: start"
)
ENGINE_UP = re.compile(r"Initializing an? (?:V\d )?LLM engine \(v(?P<engine>[^)\s]+)\)")

# a message of the log -> the stage that begins with it
_STAGE = (
    ("Loading drafter model", "draft-load"),
    ("Starting to load model", "load"),
    ("Loading model from scratch", "load"),
    ("Loading model weights", "load"),
    ("Loading safetensors checkpoint shards", "load"),
    ("Loading pt checkpoint shards", "load"),
    ("Loading weights took", "load"),
    ("Model loading took", "kv-cache"),
    ("Available KV cache memory", "kv-cache"),
    ("GPU KV cache size", "warmup"),
    ("# GPU blocks", "warmup"),
    ("Capturing CUDA graph", "warmup"),
    ("Capturing the model for CUDA graphs", "warmup"),
    ("Warming up model", "warmup"),
    ("Dynamo bytecode transform", "warmup"),
    ("Using cache directory", "warmup"),
    ("Compiling a graph", "warmup"),
    ("init engine (profile", "warmup"),
)


# One of these words (in lower case) stands in every line that any pattern of this module knows.
_WAKING = (
    ("error", "exception", "died", "exit", "kill", "fatal", "fail", "sig", "segfault", "abort", "assert", "dumped")
    + ("terminate", "corrupt", "double free", "stack smashing", "malloc", "free(", "realloc", "munmap", "collect2")
    + ("ninja", "ld:", "lookup", "watchdog", "oom", "xid", "oci runtime", "nvidia-container", "running low", "marked")
    + (
        ": not found",
        "command not found",
        "cannot execute",
        "illegal",
        "nccl warn",
        "not compatible",
        "free disk",
        "shared memory",
    )
    + ("version", "usage:", "llm engine", "platform", "starting", "non-default", "namespace(", "startup", "uvicorn")
    + ("http/", "shut", "stop", "interrupt", "processed prompts", "specdecoding", "loading", "kv cache", "gpu blocks")
    + (
        "bind on address",
        "received by pid",
        "srun",
        "what()",
        "exec: ",
        "blas_thread",
        "libgomp",
        "tcache",
        "linked list",
    )
    + ("captur", "warming", "dynamo", "cache directory", "compil", "init engine")
)


def wakes(text: str) -> bool:
    """Whether a line may mean anything to this module; most lines of a long log do not."""
    low = text.lower()
    return any(word in low for word in _WAKING)


def passed_on(text: str) -> str | None:
    """The role whose failure `text` only reports ("none": nobody's), or None when it speaks for itself."""
    head = text.split("\n", 1)[0].strip()
    if head in _PASSED_EXACT:
        return _PASSED_EXACT[head]
    for mark, role in _PASSED_ON:
        if mark in head:
            return role
    return None


def fatal_intro(intro: str) -> bool:
    """Whether the message before a traceback says that the process ends with it."""
    return any(mark in intro for mark in _FATAL_INTRO)


def harmless_intro(intro: str) -> bool:
    """Whether the message before a traceback says that nothing depends on it."""
    return any(mark in intro for mark in _HARMLESS_INTRO)


def died(text: str) -> tuple[str, int | None] | None:
    """Role and rank of the process whose death a line reports, in the wordings of several versions.

    "Worker proc VllmWorker-1 died unexpectedly (exit code: -9)", "RayWorkerProc rank=1 died unexpectedly",
    "Engine core proc EngineCore_DP0 died unexpectedly", "MPClient: engine core exited unexpectedly".
    """
    match = _DIED.search(text)
    before = text[max(0, match.start() - 120) : match.start()] if match else ""
    who, rank = _DIED_WHO.search(before), _DIED_RANK.search(before)
    if who is None:
        return None
    return "worker" if who["worker"] else "engine_core", int(rank["rank"]) if rank else None


def exit_code(match: re.Match[str]) -> int:
    """The exit status an EXITED line names; for an end by a signal 128 plus its number, as a shell has it."""
    code = int(match["code"] or match["code2"] or match["code3"])
    return code + 128 if match["how"] in ("killed", "dumped") else code


def request_level(intro: str, where: str | None) -> bool:
    """Whether a traceback belongs to one request and not to the server."""
    return any(mark in intro for mark in _REQUEST_INTRO) or bool(where and where.startswith("serving"))


def stage_of(text: str) -> str | None:
    """The stage that a message announces."""
    for mark, stage in _STAGE:
        if mark in text:
            return stage
    return None
