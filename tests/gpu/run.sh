#!/bin/sh
# On the GPU machine, in the folder that holds the parcels: sh run.sh STEP...   (see README.md)
#   setup                     check the parcels, unpack them, start the engine, load the image
#   probe | healthy-1 | ...   phases of cases.yaml, in this order; results go to OUT
# BED is where everything is put (default /opt/kit-bed), OUT where results go (default BED/out).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
BED=${BED:-/opt/kit-bed}
OUT=${OUT:-$BED/out}
export BED OUT KIT_HOME="$BED/home"
machine_python=$(command -v python3)
export MACHINE_PYTHON="$machine_python"

if [ "${1:-}" = setup ] && [ ! -e "$BED/unpacked" ]; then
  (cd "$here" && sha256sum --check --quiet SHA256SUMS)
  mkdir -p "$BED/kit"
  cat "$here"/parcel-* | xz -dc -T0 | tar -xf - -C "$BED"
  touch "$BED/unpacked"
fi
if [ "${1:-}" = setup ]; then
  mkdir -p "$BED/kit"
  tar -xJf "$here/kit.tar.xz" -C "$BED/kit"
  if [ ! -x "$BED/venv/bin/python" ]; then
    python3 -m venv --without-pip "$BED/venv"
    python3 -m pip --python "$BED/venv/bin/python" install -q --no-index --find-links "$BED/kit/wheels" \
      --require-hashes --only-binary :all: -r "$BED/kit/requirements.lock"
  fi
fi
cd "$BED/kit"
exec "$BED/venv/bin/python" -m tests.gpu.chain "$@"
