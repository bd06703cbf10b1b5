"""What watching costs: an hour of log (half an hour of start, half an hour of traffic) through all that `kit up` and
`kit watch` run over it, in virtual time; prints CPU seconds, the share of one core over that hour, and peak memory.

    python benchmarks/replay/cost.py [--requests-per-s 1]

Left out: the pauses between looks, which cost nothing, and Docker's own work of handing the log over; a real start
is measured by `/usr/bin/time -v kit up` on a deployment that plays a log (README.md).
"""

from __future__ import annotations

import json
import resource
import time

from benchmarks.replay.make_log import Start, make_log
from kit.logs import Follower
from kit.watch.events import Events
from kit.watch.plain import Plain
from kit.watch.session import Session

POLL_S = 0.1  # kit/serve/wait.py


def main() -> None:
    lines = list(make_log(Start(minutes=24, serving_minutes=30)))
    said: list[str] = []
    before = time.process_time()
    now = 0.0
    follower = Follower(clock=lambda: now)
    session = Session([Events(said.append), Plain(said.append)], None, [], stall_timeout=900, stage_timeouts={})
    number = ticks = 0
    while number < len(lines):
        now += POLL_S
        while number < len(lines) and lines[number][0] <= now:
            chunk = (lines[number][1] + "\n").encode()
            follower.feed(chunk)
            session.take(chunk, lines[number][0])
            number += 1
        session.tick(now)
        assert follower.fatal is None
        ticks += 1
    spent = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {
        "log_s": round(now), "lines": len(lines), "looks": ticks, "cpu_s": round(spent, 2),
        "share_of_a_core": f"{spent / now:.2%}", "peak_mb": round(peak, 1),
    }  # fmt: skip
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
