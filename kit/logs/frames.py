"""What the frames of a traceback tell: which process ran them, and what it was doing."""

from __future__ import annotations

from kit.logs.model import Owner, Trace

_ENGINE_FILES = (
    "v1/engine/core.py",
    "engine/llm_engine.py",
    "engine/async_llm_engine.py",
    "engine/multiprocessing/engine.py",
    "/model_executor/",
    "/v1/worker/",
    "vllm/worker/",
    "vllm/executor/",
    "/v1/executor/",
)


def owner_of(trace: Trace) -> Owner:
    """The process of an unprefixed traceback, by the code it ran and the line before it."""
    rank = trace.owner.rank
    if "Process VllmWorker" in trace.intro or "Process Worker" in trace.intro:
        return Owner("worker", rank)
    if "Process EngineCore" in trace.intro or "Process SpawnProcess" in trace.intro:
        return Owner("engine_core", rank)
    files = [file for file, _ in trace.frames]
    functions = {function for _, function in trace.frames}
    if functions & {"worker_main", "worker_busy_loop", "_run_worker_process"}:
        return Owner("worker", rank)
    joined = "\n".join(files)
    if "core_client.py" in joined and "v1/engine/core.py" not in joined:
        return Owner("api_server", rank)
    importing = any(function == "<module>" for _, function in trace.frames[-4:])
    if any(mark in joined for mark in _ENGINE_FILES) and not importing:
        return Owner("engine_core", rank)
    return Owner("api_server" if "vllm" in joined or not files else "none", rank)


_HELPERS = ("multiprocessing/resource_tracker.py", "multiprocessing/resource_sharer.py", "usage/usage_lib.py")


def of_helper(trace: Trace) -> bool:
    """Whether the traceback is one of a helper of Python or vLLM that nothing depends on."""
    return bool(trace.frames) and any(mark in trace.frames[0][0] for mark in _HELPERS)


_DRAFTING = ("spec_decode", "eagle", "medusa", "_mtp", "mtp.py", "proposer", "drafter", "dflash", "draft_model")


def stage_of(trace: Trace, stage: str) -> str:
    """The stage a traceback stands in: what its frames were doing, else what the log last announced."""
    drafting = any(mark in file or mark in function for file, function in trace.frames for mark in _DRAFTING)
    functions = {function for _, function in trace.frames}
    if functions & {"load_model", "load_weights", "get_model", "initialize_model"}:
        return "draft-load" if drafting else "load"
    if functions & {"capture_model", "compile_or_warm_up_model", "profile_run", "_dummy_run", "warmup_model"}:
        return "warmup"
    if functions & {
        "_initialize_kv_caches",
        "initialize_kv_cache",
        "get_kv_cache_configs",
        "determine_available_memory",
    }:
        return "kv-cache"
    if functions & {"create_engine_config", "build_async_engine_client_from_engine_args", "create_model_config"}:
        return "config" if not functions & {"make_async_mp_client", "launch_core_engines"} else stage
    if functions & {"run_busy_loop", "execute_model", "_process_engine_step"}:
        return "serving"
    return stage
