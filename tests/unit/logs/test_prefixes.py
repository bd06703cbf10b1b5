"""Whose line it is, and what is left of it once the wrapping is off."""

import json

import pytest

from kit.logs.model import Line, Owner
from kit.logs.prefixes import Names


def read(*raw: str) -> Line:
    names = Names()
    return [line for number, text in enumerate(raw, 1) for line in names.read(number, text)][-1]


@pytest.mark.parametrize(
    ("prefix", "owner"),
    [
        ("(APIServer pid=1)", Owner("api_server", None, 1)),
        ("(ApiServer_2 pid=12)", Owner("api_server", 2, 12)),
        ("(EngineCore_0 pid=7)", Owner("engine_core", 0, 7)),
        ("(EngineCore_DP3 pid=7)", Owner("engine_core", 3, 7)),
        ("(EngineCore pid=7)", Owner("engine_core", None, 7)),
        ("(VllmWorker rank=1 pid=9)", Owner("worker", 1, 9)),
        ("(VllmWorker TP1 pid=9)", Owner("worker", 1, 9)),
        ("(VllmWorker-0 pid=9)", Owner("worker", 0, 9)),
        ("(VllmWorkerProcess pid=9)", Owner("worker", None, 9)),
        ("(Worker_TP3_EP3 pid=9)", Owner("worker", 3, 9)),
        ("(Worker_TP5_DCP1 pid=9)", Owner("worker", 5, 9)),
        ("(Worker_PP1 pid=9)", Owner("worker", 1, 9)),
        ("(Worker pid=9)", Owner("worker", None, 9)),
        ("(RayWorkerWrapper pid=9, ip=10.0.0.2)", Owner("worker", None, 9)),
        ("(EngineCore_DP0 pid=7) (RayWorkerWrapper pid=9, ip=10.0.0.2)", Owner("worker", None, 9)),
        ("(EngineCore_DP0 pid=7) (Worker_TP1 pid=9)", Owner("worker", 1, 9)),
    ],
)
def test_a_process_prefix_names_role_rank_and_pid(prefix: str, owner: Owner) -> None:
    line = read(f"{prefix} ERROR 10-13 12:01:14 [multiproc_executor.py:597] WorkerProc failed to start.")
    assert (line.owner, line.level, line.where) == (owner, "ERROR", "multiproc_executor.py")
    assert line.text == "WorkerProc failed to start."


@pytest.mark.parametrize(
    "wrapping",
    [
        "2026-10-28T13:43:55.005473012Z ",
        "2026-10-28T13:43:55.005473012+02:00 stderr F ",
        "vllm-server  | ",
        "vllm-1  | 2026-10-28T13:43:55Z ",
        "vllm_vllm.1.x8d2k@node7    | ",
        "Nov 29 14:00:00 box7 vllm[812]: ",
        "2026-11-29T14:00:00+0100 box7 vllm[812]: ",
        "[pod/vllm-0/server] ",
        "\x1b[36mvllm-1  |\x1b[0m ",
    ],
)
def test_what_collectors_put_before_a_line_comes_off(wrapping: str) -> None:
    line = read(wrapping + '\x1b[1;36m(EngineCore pid=7)\x1b[0;0m   File "x.py", line 3, in f\r')
    assert (line.owner, line.text) == (Owner("engine_core", None, 7), '  File "x.py", line 3, in f')


def test_a_wrapping_that_nobody_named_is_learned_from_lines_that_show_it() -> None:
    shape = "[2025-12-18T16:24:0{}+08:00] job-77-xyz >> "
    lines = [shape.format(n) + f"(EngineCore pid=7) INFO 12-18 08:24:01 [core.py:{n}] hello" for n in range(3)]
    assert read(*lines, shape.format(5) + "ValueError: bad").text == "ValueError: bad"


def test_a_bar_in_ordinary_text_is_no_wrapping() -> None:
    text = "Loading safetensors checkpoint shards:  47% Completed | 8/17 [00:04<00:05,  0.60s/it]"
    assert read(text).text == text


def test_an_unprefixed_header_tells_the_process_by_its_file() -> None:
    assert read("ERROR 06-13 17:40:11 [core.py:396] x").owner == Owner("engine_core")
    assert read("INFO 06-13 17:40:11 [v1/engine/async_llm.py:396] x").owner == Owner("api_server")
    assert read("INFO 10-21 11:13:52 api_server.py:526] x").owner == Owner("api_server")
    assert read('INFO:     10.0.0.1:5 - "GET /health HTTP/1.1" 200 OK').owner == Owner("api_server")


def test_nccl_lines_belong_to_the_process_of_their_pid() -> None:
    line = read(
        "(Worker_TP1 pid=3017) INFO 10-28 13:43:55 [pynccl.py:103] x", "host:3017:3339 [1] NCCL INFO Channel 00"
    )
    assert line.owner == Owner("worker", 1, 3017)


def test_of_a_progress_bar_the_last_part_is_read() -> None:
    assert read("Loading:   0%\rLoading:  50%\rValueError: x\r").text == "ValueError: x"


def test_rays_notes_of_repetition_and_torchs_rank_come_off() -> None:
    raw = '(RayWorkerWrapper pid=8)   File "a.py", line 2, in f [repeated 6x across cluster]'
    assert read(raw).text == '  File "a.py", line 2, in f'
    assert read("[rank0]: RuntimeError: x").text == "RuntimeError: x"
    assert read("[rank0]:[W921 14:51:38.6 ProcessGroupNCCL.cpp:1538] Warning").text.startswith("[rank0]:[W921")


def test_a_structured_record_is_opened() -> None:
    assert (
        read('{"log":"(EngineCore pid=7) ValueError: x\\n","stream":"stderr","time":"2026-01-01T00:00:00Z"}').text
        == "ValueError: x"
    )
    text = 'Traceback (most recent call last):\n  File "a", line 1, in f\nKeyError: 1'
    lines = Names().read(4, json.dumps({"severity": "ERROR", "message": text}))
    assert [(line.number, line.text) for line in lines][-1] == (4, "KeyError: 1")


def test_two_prefixes_of_one_kind_are_a_race_and_the_second_writes_next() -> None:
    line = read("(Worker_TP0 pid=8) (Worker_TP1 pid=9) ERROR 10-28 13:43:55 [x.py:1] mine")
    assert (line.owner, line.race) == (Owner("worker", 0, 8), Owner("worker", 1, 9))


def test_a_worker_without_a_rank_in_its_prefix_gets_the_one_that_it_tells():
    names = Names()
    told = "(Worker pid=62) INFO 11-29 21:34:37 [parallel_state.py:1607] world_size=2 rank=1 local_rank=1 backend=nccl"
    names.read(1, told)
    later = names.read(
        2, "(Worker pid=62) ERROR 11-29 21:34:38 [multiproc_executor.py:898] WorkerProc failed to start."
    )
    other = names.read(
        3, "(Worker pid=63) ERROR 11-29 21:34:38 [multiproc_executor.py:898] WorkerProc failed to start."
    )
    assert (later[0].owner.rank, other[0].owner.rank) == (1, None)
    names.read(4, told.replace("rank=1", "rank=0"))  # the next run may give the pid to another rank
    assert names.read(5, "(Worker pid=62) ERROR 11-29 21:34:39 [x.py:1] y")[0].owner.rank == 0
