"""Tracebacks are put together whatever lies between their lines."""

from kit.logs.model import Line, Owner, Trace
from kit.logs.tracebacks import Builder, causal

OWNER = Owner("worker", 0, 9)


def build(text: str) -> list[Trace]:
    builder, traces = Builder(OWNER), []
    for number, line in enumerate(text.strip("\n").split("\n"), start=1):
        _, trace = builder.feed(Line(number, line, OWNER))
        traces += [trace] if trace else []
    last = builder.finish()
    return traces + ([last] if last else [])


def told(trace: Trace) -> list[tuple[int, str, str | None]]:
    return [(r.line, r.text.split("\n")[0], r.link) for r in trace.raised]


def test_a_chain_keeps_its_order_and_its_links() -> None:
    [trace] = build("""
Traceback (most recent call last):
  File "a.py", line 1, in f
    g()
    ^^^
queue.Empty

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 2, in h
    raise
TimeoutError: RPC call timed out

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "c.py", line 3, in k
RuntimeError: cancelled
""")
    assert told(trace) == [
        (5, "queue.Empty", None),
        (12, "TimeoutError: RPC call timed out", "cause"),
        (18, "RuntimeError: cancelled", "context"),
    ]
    assert [r.name for r in causal(trace)] == ["queue.Empty", "TimeoutError", "RuntimeError"]
    assert trace.raised[1].frames == [("b.py", "h")]


def test_a_message_of_many_lines_is_kept_with_its_lines() -> None:
    [trace] = build("""
Traceback (most recent call last):
  File "a.py", line 1, in f
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, no such model [type=value_error]
    For further information visit https://errors.pydantic.dev
""")
    raised = trace.raised[0]
    assert raised.message.split("\n")[1] == "  Value error, no such model [type=value_error]"
    assert raised.more == (4, 5)


def test_the_members_of_a_group_come_before_the_group() -> None:
    [trace] = build("""
  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 1, in f
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "b.py", line 2, in g
    | ValueError: the cause
    +------------------------------------
""")
    assert [r.name for r in causal(trace)] == ["ValueError", "ExceptionGroup"]


def test_what_ray_quotes_happened_before() -> None:
    [trace] = build("""
Traceback (most recent call last):
  File "driver.py", line 1, in f
ray.exceptions.RayTaskError(RuntimeError): ray::RayWorkerWrapper.execute_method() (pid=31, ip=10.0.0.2)
  File "worker.py", line 9, in execute_method
    raise e
RuntimeError: CUDA error: out of memory
""")
    assert next(r.text for r in causal(trace)) == "RuntimeError: CUDA error: out of memory"


def test_foreign_lines_between_do_no_harm() -> None:
    [trace] = build("""
Traceback (most recent call last):
  File "a.py", line 1, in f
Loading safetensors checkpoint shards:  50% Completed | 1/2
    x = 1
  [Previous line repeated 12 more times]
KeyError: 'w'
""")
    assert told(trace) == [(6, "KeyError: 'w'", None)]


def test_a_traceback_cut_at_its_beginning_or_end_is_still_one() -> None:
    [begin] = build('  File "a.py", line 1, in f\n    x\nKeyError: 1')
    assert (told(begin), begin.cut) == ([(3, "KeyError: 1", None)], True)
    [end] = build('Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x')
    assert end.cut and end.frames == [("a.py", "f")]


def test_a_native_stack_is_no_traceback() -> None:
    assert build('  File "<unknown>", line 0, in cuMemCreate\n  File "misc/cudawrap.cc", line 92, in ncclCuMem()') == []


def test_two_of_the_same_after_one_another_are_two() -> None:
    one = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 1'
    assert [told(t)[0][1] for t in build(f"{one}\n{one}")] == ["KeyError: 1", "KeyError: 1"]
