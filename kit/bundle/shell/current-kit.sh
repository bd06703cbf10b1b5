#!/bin/sh
# The kit of the current release.
root=$(dirname -- "$(readlink -f -- "$0")")
[ -x "$root/current/kit" ] || { echo "error: no release is current in $root; next: sh install.sh KEY.pub in the bundle" >&2; exit 5; }
exec "$root/current/kit" "$@"
