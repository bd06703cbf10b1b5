#!/usr/bin/env bash
# Rendered by kit 0.1.0 for deployment kimi-k2-5 (values 966f9e6ff9bd2427). Edits here are lost: change kit.yaml, then `kit render`.
# Starts vLLM. In the kit's container it is the command; outside it runs with the vllm on PATH:
#   bash launch.sh            KIT_DRY_RUN=1 bash launch.sh prints the command instead
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
set -a
# shellcheck source=/dev/null
. "$here/engine.env"
set +a

if [[ -n "${KIT_IN_CONTAINER:-}" ]]; then
  model=/model
  host=0.0.0.0 # inside the container's own network; published on 127.0.0.1
  port=8000
  api_key_file=/run/secrets/api_key
  speculative='{"method": "eagle3", "model": "/drafter", "num_speculative_tokens": 5}'
  # compiled kernels outlive the container, in a volume that belongs to this image
  export XDG_CACHE_HOME=/cache VLLM_CACHE_ROOT=/cache/vllm TRITON_CACHE_DIR=/cache/triton
  export TORCHINDUCTOR_CACHE_DIR=/cache/inductor FLASHINFER_WORKSPACE_BASE=/cache
  # what the driver compiles from PTX, such as FlashAttention 2 on cards newer than it, would else be compiled anew each time
  export CUDA_CACHE_PATH=/cache/cuda CUDA_CACHE_MAXSIZE=4294967296
else
  model=/models/Kimi-K2.5
  host=127.0.0.1
  port=8000
  api_key_file=/srv/kit/secrets/key
  speculative='{"method": "eagle3", "model": "/models/Kimi-K2.5-eagle3", "num_speculative_tokens": 5}'
fi

# in the environment, not on the command line, where every user of the machine could read it
VLLM_API_KEY=$(<"$api_key_file")
[[ -n "$VLLM_API_KEY" ]] || { echo "launch.sh: the API key file is empty" >&2; exit 5; }
export VLLM_API_KEY

command=(
  vllm serve "$model"
  --host "$host"
  --port "$port"
  --speculative-config "$speculative"
  --served-model-name kimi-k2.5
  --max-model-len 131072
  --tensor-parallel-size 8
  --gpu-memory-utilization 0.92
  --max-num-seqs 32
  --trust-remote-code
)
if [[ -n "${KIT_DRY_RUN:-}" ]]; then
  printf '%q ' "${command[@]}"
  echo
  exit 0
fi
exec "${command[@]}"
