"""What watching saw, as a diagnosis; what the log names stays."""

from dataclasses import replace

import pytest

from kit.logs import Diagnosis, RootCause
from kit.watch.feed import Feed
from kit.watch.hang import Judgement, signs
from kit.watch.model import Process, Snapshot
from kit.watch.verdict import hung, unanswered

WORKER = Process("worker", 1, 55, "load", 0.0)
HELD = Judgement("hung", signs()["held"], "rank 1 (pid 55) does not run", 75.0, 75.0, WORKER)
NOTHING = Diagnosis("healthy", None, (), 1, 3, (), "0.25.1", ())
WAITED = RootCause("timeout-hang", "engine_core", None, 45, "TimeoutError", 181, "serving", "rpc-timeout", 0.8, "", ())


def now() -> Snapshot:
    feed = Feed()
    feed.bytes(b"(APIServer pid=7) INFO 11-29 21:41:22 [api_utils.py:339] vLLM API server version 0.25.1\n", 1.0)
    return feed.tracker.snapshot()


def test_a_hang_blames_who_keeps_the_others_waiting() -> None:
    root = hung(NOTHING, HELD, now(), "hung").root_cause
    assert root is not None
    assert (root.category, root.process, root.rank, root.pid) == ("timeout-hang", "worker", 1, 55)
    nobody = hung(NOTHING, replace(HELD, who=None), now(), "hung").root_cause
    assert nobody is not None and (nobody.process, nobody.rank) == ("none", None)


def test_a_start_that_ran_out_of_time_is_not_called_a_standstill() -> None:
    root = hung(NOTHING, Judgement("ok", None, "", 27.0, 300.0), now(), "not ready within 300 s").root_cause
    assert root is not None and "start_timeout" in root.remedy[0]
    assert root.summary == "Not ready within 300 s, and nothing says that it hangs; the stage: configuration."


def test_a_request_without_an_answer_names_who_holds_it_up_and_keeps_the_line() -> None:
    bare = unanswered(NOTHING, HELD, now()).root_cause
    assert bare is not None and (bare.process, bare.rank, bare.line) == ("worker", 1, None)
    told = unanswered(replace(NOTHING, verdict="failed", root_cause=WAITED), HELD, now()).root_cause
    assert told is not None
    assert (told.process, told.rank, told.exception, told.line) == ("worker", 1, "TimeoutError", 181)


@pytest.mark.parametrize("judgement", [HELD, replace(HELD, who=None)])
def test_what_the_log_names_stays(judgement: Judgement) -> None:
    named = replace(NOTHING, verdict="failed", root_cause=replace(WAITED, category="gpu-oom"))
    assert unanswered(named, judgement, now()) == hung(named, judgement, now(), "hung") == named
