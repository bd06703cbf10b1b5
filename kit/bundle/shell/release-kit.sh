#!/bin/sh
# The kit of this release, for this release's deployment. Values of this machine: site.env, two folders up.
here=$(dirname -- "$(readlink -f -- "$0")")
root=$(dirname -- "$(dirname -- "$here")")
if [ -f "$root/site.env" ]; then
  set -a
  # shellcheck source=/dev/null
  . "$root/site.env"
  set +a
fi
export KIT_FILE="$here/deployment/kit.yaml" KIT_RELEASES="$root"
exec "$here/venv/bin/python" -I -m kit "$@"
