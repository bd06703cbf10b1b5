#!/usr/bin/env bash
# Rendered by kit 0.1.0 for deployment embedded (values 9226870a8e958d9c). Edits here are lost: change kit.yaml, then `kit render`.
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
  speculative='{"method": "eagle3", "model": "/drafter", "num_speculative_tokens": 5}'
  # compiled kernels outlive the container, in a volume that belongs to this image
  export XDG_CACHE_HOME=/cache VLLM_CACHE_ROOT=/cache/vllm TRITON_CACHE_DIR=/cache/triton
  export TORCHINDUCTOR_CACHE_DIR=/cache/inductor FLASHINFER_WORKSPACE_BASE=/cache
  # what the driver compiles from PTX, such as FlashAttention 2 on cards newer than it, would else be compiled anew each time
  export CUDA_CACHE_PATH=/cache/cuda CUDA_CACHE_MAXSIZE=4294967296
else
  model=/srv/kit/.kit/reference/kimi-k2.5
  host=127.0.0.1
  port=8000
  speculative='{"method": "eagle3", "model": "/srv/kit/.kit/reference/drafters/aux", "num_speculative_tokens": 5}'
fi

command=(
  vllm serve "$model"
  --host "$host"
  --port "$port"
  --speculative-config "$speculative"
  --served-model-name tiny-kimi
  --dtype float32
  --max-model-len 512
  --max-num-seqs 4
  --enforce-eager
)
if [[ -n "${KIT_DRY_RUN:-}" ]]; then
  printf '%q ' "${command[@]}"
  echo
  exit 0
fi
exec "${command[@]}"
