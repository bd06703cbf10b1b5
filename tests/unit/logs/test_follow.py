"""A growing log: the answer comes soon after the first fatal line, and not before."""

from kit.logs import Follower, diagnose_lines
from tests.unit.logs.lines import API, BANNER, ENGINE, READY, START_FAILED, core_error, trace


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def feed(follower: Follower, *lines: str) -> None:
    follower.feed("".join(f"{line}\n" for line in lines).encode())


def test_fatal_waits_for_its_grace_and_then_tells_the_first_cause() -> None:
    clock = Clock()
    follower = Follower(rules=(), grace=1.0, clock=clock)
    feed(follower, BANNER, ENGINE)
    assert (follower.stage, follower.fatal, follower.ready) == ("load", None, False)
    feed(follower, *core_error("KeyError: 1"), "")
    assert follower.fatal is None
    clock.now = 1.0
    assert follower.fatal is not None and follower.fatal.root_cause is not None
    assert follower.fatal.root_cause.exception == "KeyError: 1"


def test_a_traceback_that_nothing_follows_is_seen_too() -> None:
    clock = Clock()
    follower = Follower(rules=(), grace=1.0, clock=clock)
    feed(follower, BANNER, ENGINE, *core_error("KeyError: 1"))
    assert follower.fatal is None
    clock.now = 1.0
    assert follower.fatal is not None and follower.fatal.root_cause is not None
    assert follower.fatal.root_cause.exception == "KeyError: 1"


def test_a_failure_that_the_server_survives_is_not_fatal() -> None:
    clock = Clock()
    follower = Follower(rules=(), grace=1.0, clock=clock)
    feed(follower, BANNER, *trace("", "ImportError: optional"), ENGINE, READY)
    clock.now = 5.0
    assert (follower.fatal, follower.ready, follower.stage) == (None, True, "serving")


def test_a_start_that_goes_on_is_not_fatal_and_not_a_failure() -> None:
    follower = Follower(rules=())
    feed(follower, BANNER, ENGINE)
    assert follower.fatal is None
    assert follower.finish().verdict == "healthy"


def test_a_restart_forgets_the_failure_of_the_run_before() -> None:
    clock = Clock()
    follower = Follower(rules=(), clock=clock)
    feed(follower, BANNER, ENGINE, *core_error("KeyError: 1"), *trace(API, START_FAILED), BANNER, ENGINE)
    clock.now = 9.0
    assert follower.fatal is None


def test_the_end_of_the_container_explains_a_log_that_says_nothing() -> None:
    follower = Follower()
    feed(follower, BANNER, ENGINE)
    found = follower.finish(exit_code=137, oom_killed=True)
    assert found.root_cause is not None and found.root_cause.category == "host-oom-kill"
    assert any("status 137" in note for note in found.notes)


def test_it_answers_as_the_whole_log_does_whatever_the_chunks() -> None:
    lines = [BANNER, ENGINE, *core_error("KeyError: 1"), *trace(API, START_FAILED)]
    data = "".join(f"{line}\n" for line in lines).encode()
    follower = Follower(rules=())
    for at in range(0, len(data), 7):
        follower.feed(data[at : at + 7])
    assert follower.finish(exit_code=1).root_cause == diagnose_lines(lines, rules=()).root_cause
