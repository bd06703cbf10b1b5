#!/bin/sh
# sh install.sh KEY.pub [--to FOLDER] [options of `kit bundle install`]: verifies this bundle, then installs its release.
# Needs Docker and a Python that the bundle has wheels for; no network. KEY.pub must have reached you by another way.
set -eu
here=$(cd -- "$(dirname -- "$0")" && pwd)
key=$(readlink -f -- "${1:?usage: sh install.sh KEY.pub [--to FOLDER]}")
shift
sh "$here/verify.sh" "$key" "$here"

python=${PYTHON:-python3}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ ! -f "$here/kit/requirements-$version.txt" ]; then
  echo "error: the bundle has no wheels for $python, which is Python $version" >&2
  echo "next:  PYTHON=/path/to/another/python3 sh install.sh ...; there are: $(cd "$here/kit" && echo requirements-*.txt)" >&2
  exit 5
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "installing the kit from the bundle into a folder of its own" >&2
"$python" -m venv --without-pip "$work"
"$work/bin/python" "$(echo "$here"/kit/wheels/pip-*.whl)/pip" install --quiet --no-index --no-deps --no-compile \
  --disable-pip-version-check --no-cache-dir --require-hashes --find-links "$here/kit/wheels" -r "$here/kit/requirements-$version.txt"
"$work/bin/python" "$(echo "$here"/kit/wheels/pip-*.whl)/pip" install --quiet --no-index --no-deps --no-compile \
  --disable-pip-version-check --no-cache-dir "$(echo "$here"/kit/vllm_kit-*.whl)"
"$work/bin/python" -I -m kit bundle install "$here" --key "$key" "$@"
