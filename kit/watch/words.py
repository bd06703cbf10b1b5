"""Numbers as people read them: durations, sizes, rates; pure."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Seconds as "42 s", "3:07 min" or "1:02:09 h"."""
    whole = max(0, round(seconds))
    if whole < 100:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d} h"


def rate(bytes_per_second: float) -> str:
    """A disk rate in decimal units, as disks are sold: "512 MB/s"."""
    value = bytes_per_second
    for unit in ("B/s", "kB/s", "MB/s"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB/s"


def gib(mib: float) -> str:
    """MiB as "71.4 GiB"."""
    return f"{mib / 1024:.1f} GiB"
