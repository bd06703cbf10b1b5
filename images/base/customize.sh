#!/bin/sh
# Run by mmdebstrap on the finished tree ($1), before it is packed: take out what differs from machine to machine
# and what no container needs, and compile Python once, independent of times.
set -eu
root=$1
rm -f "$root"/etc/hostname "$root"/etc/machine-id
# empty, not absent: a build puts its own over them, and where there is none some engines note a change of /etc
: > "$root"/etc/resolv.conf
: > "$root"/etc/hosts
rm -f "$root"/var/cache/ldconfig/aux-cache "$root"/var/lib/dpkg/*-old "$root"/var/cache/debconf/*-old
rm -rf "$root"/var/log/* "$root"/usr/share/man "$root"/usr/share/info
find "$root"/usr -xdev -name __pycache__ -type d -prune -exec rm -rf {} +
PYTHONHASHSEED=0 chroot "$root" python3 -m compileall -q -f -j 0 --invalidation-mode unchecked-hash \
  -x 'lib2to3/tests' /usr/lib/python3 /usr/lib/python3.11
