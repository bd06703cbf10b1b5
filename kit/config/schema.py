"""The models of kit.yaml. `docs/kit-yaml.md` and `kit config schema` are made from this file.

All models are frozen and strict: a number is a number, text is text, an unknown key is a fault.
Byte sizes are written as text with a unit ("16GiB") and held as a whole number of bytes.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(" + "|".join(UNITS) + ")")


def parse_size(value: Any) -> int:
    """Bytes of a size such as "6GiB"; raises ValueError with what is allowed."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be a size with a unit, such as 6GiB ({', '.join(UNITS)})")
    return int(float(match[1]) * UNITS[match[2]])


def format_size(size: int) -> str:
    """The shortest exact spelling of a number of bytes, binary units first."""
    for unit in ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB"):
        if size >= UNITS[unit] and size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]}{unit}"
    return f"{size}B"


Size = Annotated[
    int,
    BeforeValidator(parse_size, json_schema_input_type=Annotated[str, StringConstraints(pattern=_SIZE.pattern)]),
    PlainSerializer(format_size, return_type=str),
]
# Text that goes into files of other languages: any printable text, but no control characters.
PATTERNS = {
    r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$": "must be text of one line, without control characters",
    r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$": "must be text of one line, without control characters, or empty",
    r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$": "must be 1 to 40 lower-case letters, digits and hyphens",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "must be the name of an environment variable",
    r"^\d+\.\d+\.\d+([a-z0-9.+-]*)$": "must be a full version, such as 0.16.0",
    r"^/[^\x00-\x1f\x7f:]*$": "must be an absolute path without a colon",
}
_TEXT, _VALUE, _NAME, _ENV_NAME, _VERSION, _CONTAINER_PATH = PATTERNS
Text = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=_TEXT)]
EnvValue = Annotated[str, StringConstraints(max_length=4096, pattern=_VALUE)]
Name = Annotated[str, StringConstraints(pattern=_NAME)]
EnvName = Annotated[str, StringConstraints(pattern=_ENV_NAME)]
Version = Annotated[str, StringConstraints(pattern=_VERSION)]
ContainerPath = Annotated[str, StringConstraints(pattern=_CONTAINER_PATH)]
Rate = Annotated[float, Field(ge=0, le=1)]
# the stages of a start, as kit/watch/stages.toml names them
StageName = Literal[
    "boot",
    "config",
    "processes",
    "nccl",
    "load",
    "draft-load",
    "profile",
    "compile",
    "kv-cache",
    "warmup",
    "capture",
    "api",
]


class Model(BaseModel):
    """What every part of kit.yaml shares: frozen, strict, no unknown keys."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", protected_namespaces=())


class Engine(Model):
    """The inference engine: which vLLM, in which image, with which patches."""

    vllm: Version = Field(description="vLLM release, pinned, such as 0.16.0")
    device: Literal["cuda", "cpu"] = Field("cuda", description="what the engine computes on")
    image: Name | None = Field(
        None, description="recipe under images/ to build; default vllm-cuda or vllm-cpu, by device"
    )
    existing: Text | None = Field(
        None, description="an image that exists already (name:tag or digest); then nothing is built"
    )
    patches: Literal["auto"] | list[Name] = Field(
        "auto", description="patches to bake in: auto takes every patch this vLLM needs; or a list of ids"
    )
    env: dict[EnvName, EnvValue] = Field({}, description="environment variables for the engine; a value may be empty")
    args: list[Text] = Field([], description="further arguments of `vllm serve`, one list item each")
    enforce_eager: bool = Field(False, description="run without CUDA graphs and compilation")
    max_num_seqs: int | None = Field(None, ge=1, description="sequences in one step; default: vLLM's")
    max_num_batched_tokens: int | None = Field(None, ge=1, description="tokens in one step; default: vLLM's")


class Target(Model):
    """The model that is served."""

    path: Text | None = Field(None, description="folder of the model; relative to kit.yaml")
    reference: Literal["kimi-k2.5", "deepseek-v3", "llama"] | None = Field(
        None, description="a tiny reference model in this form, made by the kit, in place of `path`"
    )
    served_name: Text = Field(description="name under which the API serves it")
    max_model_len: int | None = Field(None, ge=8, description="longest context, tokens; default: the model's")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field("auto", description="type of activations")
    quantization: Text | None = Field(None, description="quantization method; default: what the model says")
    kv_cache_dtype: Text | None = Field(None, description="type of the KV cache; default: the model's")
    trust_remote_code: bool = Field(False, description="run Python code that comes with the model")


class Drafter(Model):
    """The draft model."""

    path: Text | None = Field(None, description="folder of the drafter; relative to kit.yaml")
    reference: Literal["full", "partial", "half", "never", "reduced", "aux"] | None = Field(
        None, description="a reference drafter made by the kit, in place of `path`"
    )


class Speculative(Model):
    """Speculative decoding."""

    method: Literal["eagle3"] = Field("eagle3", description="speculative method")
    drafter: Drafter = Field(description="the draft model")
    num_speculative_tokens: int = Field(5, ge=1, le=16, description="tokens drafted in each step")
    tensor_parallel: int | None = Field(None, ge=1, description="tensor parallel size of the drafter; default: vLLM's")


class Gpus(Model):
    """The GPUs that this deployment expects to find."""

    count: int = Field(0, ge=0, le=64, description="number of GPUs; 0 on the CPU")
    name: Text | None = Field(None, description="what the product name of each card must begin with")
    memory_utilization: float = Field(0.9, gt=0, le=1, description="share of each card's memory that vLLM may take")
    devices: Literal["all"] | list[Text] = Field("all", description="which cards: all, or indices or UUIDs as text")
    access: Literal["auto", "cdi", "runtime"] = Field(
        "auto", description="how a container gets them: CDI, the NVIDIA runtime, or what is there"
    )


class Parallel(Model):
    """How the model is spread."""

    tensor: int = Field(1, ge=1, le=64, description="tensor parallel size")
    pipeline: int = Field(1, ge=1, le=64, description="pipeline parallel size")
    expert: bool = Field(False, description="expert parallelism for mixture-of-experts layers")


class Server(Model):
    """The API server."""

    host: Text = Field("127.0.0.1", description="address to bind on this machine")
    port: int = Field(8000, ge=1, le=65535, description="port to bind on this machine")
    api_key_file: Text | None = Field(None, description="file that holds the API key; relative to kit.yaml")
    network: Literal["bridge", "host"] = Field("bridge", description="container network")


class Limits(Model):
    """What the container may use, and how long things may take."""

    memory: Size | None = Field(None, description="memory limit of the container; default: none")
    shm: Size = Field(parse_size("8GiB"), description="size of /dev/shm in the container")
    tmp: Size = Field(parse_size("4GiB"), description="size of /tmp in the container (memory)")
    pids: int = Field(16384, ge=64, description="processes and threads in the container")
    restarts: int = Field(3, ge=0, le=10, description="restarts after a crash before it stays down")
    start_timeout: int = Field(3600, ge=10, description="seconds that a start may take in all")
    stall_timeout: int = Field(
        900, ge=10, description="seconds without any progress in a start before it counts as hung"
    )
    stage_timeouts: dict[StageName, Annotated[int, Field(ge=10)]] = Field(
        {}, description="the same for single stages of a start, such as {compile: 3600}; default: the kit's own"
    )
    stop_grace: int = Field(30, ge=1, le=600, description="seconds between asking the engine to stop and killing it")


class Mount(Model):
    """A folder of this machine that the container sees."""

    source: Text = Field(description="path on this machine; relative to kit.yaml")
    target: ContainerPath = Field(description="absolute path in the container")
    read_only: bool = Field(True, description="without write access")


class Caches(Model):
    """Where compiled kernels live between starts."""

    volume: bool = Field(True, description="keep compile caches in a volume that belongs to this image and drafter")


class Gates(Model):
    """What the smoke test demands. A gate that is not given is not judged."""

    acceptance_rate: Rate | None = Field(None, description="least share of draft tokens accepted")
    mean_acceptance_length: float | None = Field(None, ge=1, description="least 1 + accepted tokens / drafts")
    per_position: list[Rate] = Field([], description="least acceptance rate at each draft position")
    ttft_s: float | None = Field(None, gt=0, description="longest time to first token, seconds (median)")
    tokens_per_s: float | None = Field(None, gt=0, description="least output tokens a second, one request at a time")
    exact: bool = Field(True, description="reference models: counters and text must equal the prediction")


class Smoke(Model):
    """The test after the start."""

    prompts: Text | None = Field(None, description="YAML file of prompts; default: the kit's own set")
    max_tokens: int = Field(128, ge=2, description="tokens per prompt")
    timeout: int = Field(300, ge=5, description="seconds that one request may take")
    gates: Gates = Field(Gates(), description="what must hold")


class Kit(Model):
    """kit.yaml: one deployment."""

    schema_: Literal["kit/1"] = Field("kit/1", alias="schema", description="version of this file's schema")
    name: Name = Field(description="name of the deployment: lower-case letters, digits, hyphens")
    engine: Engine = Field(description="the inference engine")
    model: Target = Field(description="the model that is served")
    speculative: Speculative | None = Field(None, description="speculative decoding; absent: none")
    gpus: Gpus = Field(Gpus(), description="the GPUs expected")
    parallel: Parallel = Field(Parallel(), description="how the model is spread")
    server: Server = Field(Server(), description="the API server")
    limits: Limits = Field(Limits(), description="limits of the container and of waiting")
    caches: Caches = Field(Caches(), description="compile caches")
    mounts: list[Mount] = Field([], description="further folders for the container")
    smoke: Smoke = Field(Smoke(), description="the test after the start")
