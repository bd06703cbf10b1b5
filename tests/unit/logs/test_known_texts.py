"""Texts that vLLM, PyTorch, CUDA, NCCL and others are known to print, and the category of each."""

import pytest

from kit.logs import diagnose_lines
from kit.logs.rules import load
from tests.unit.logs.test_rules import as_log

RULES = load()
KNOWN = [
    ("gpu-oom", "load", "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    ("driver-mismatch", "load", "pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch."),
    ("gpu-arch-unsupported", "load", "RuntimeError: FlashAttention only supports Ampere GPUs or newer."),
    ("gpu-arch-unsupported", "load", "ValueError: type fp8e4nv not supported in this architecture."),
    ("gpu-arch-unsupported", "load", "RuntimeError: Triton Error [CUDA]: device kernel image is invalid"),
    ("gpu-arch-unsupported", "load", "RuntimeError: No compiled cutlass_scaled_mm for CUDA device capability: 120."),
    (
        "gpu-arch-unsupported",
        "load",
        "ValueError: NvFp4 MoE backend 'FLASHINFER_CUTLASS' does not support the deployment configuration since kernel "
        "does not support current device.",
    ),
    ("parallel-layout", "load", "AssertionError: 28 is not divisible by 8"),
    (
        "parallel-layout",
        "load",
        "ValueError: Weight input_size_per_partition = 10944 is not divisible by min_thread_k = 128.",
    ),
    (
        "parallel-layout",
        "load",
        "RuntimeError: please ensure that world_size (2) is less than than max local gpu count (1)",
    ),
    ("model-files", "config", "OSError: /models/foo is not a local folder and is not a valid model identifier"),
    (
        "model-download",
        "config",
        "OSError: foo/bar is not a local folder and is not a valid model identifier listed on 'https://x'",
    ),
    (
        "model-files",
        "config",
        "HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/x'.",
    ),
    ("model-files", "config", "ValueError: No supported config format found in /models/x."),
    (
        "model-unsupported",
        "config",
        "ValueError: Tokenizer class Qwen9Tokenizer does not exist or is not currently imported.",
    ),
    ("host-resource", "config", "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5555')"),
    ("host-resource", "load", "OSError: [Errno 5] Input/output error"),
    ("host-resource", "load", "torch.distributed.DistNetworkError: The server socket has failed to listen: EADDRINUSE"),
    ("nccl-comm", "load", "RuntimeError: NCCL Error 2: unhandled system error"),
    (
        "gpu-p2p",
        "load",
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled cuda error\n"
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
        "Cuda failure 'peer access is not supported between these two devices'",
    ),
    ("python-env", "config", "ModuleNotFoundError: No module named 'vllm._C'"),
    ("python-env", "load", "AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'"),
    ("python-env", "config", "ImportError: libGL.so.1: cannot open shared object file: No such file or directory"),
    ("python-env", "config", "ImportError: numpy.core.multiarray failed to import"),
    ("host-oom-kill", "load", "OSError: [Errno 12] Cannot allocate memory"),
    ("gpu-hardware", "serving", "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution"),
    (
        "spec-target-unsupported",
        "load",
        "AttributeError: 'Qwen9ForCausalLM' object has no attribute 'set_aux_hidden_state_layers'",
    ),
    ("spec-draft-load", "draft-load", "AttributeError: 'LlamaConfig' object has no attribute 'draft_vocab_size'"),
    ("spec-draft-load", "draft-load", "AssertionError"),
    ("gpu-oom", "draft-load", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("model-files", "draft-load", "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge"),
    ("ray-cluster", "load", "ray.exceptions.RaySystemError: System error: No module named 'vllm'"),
    ("timeout-hang", "serving", "TimeoutError: RPC call to execute_model timed out."),
]


@pytest.mark.parametrize(("category", "stage", "text"), KNOWN, ids=[f"{c}-{n}" for n, (c, _, _) in enumerate(KNOWN)])
def test_a_known_text_has_its_category(category: str, stage: str, text: str) -> None:
    root = diagnose_lines(as_log(text, stage), rules=RULES).root_cause
    assert root is not None and (root.category, root.exception.split("\n")[0]) == (category, text.split("\n")[0])
