"""What is said of BuildKit's output, and how its failures are told apart."""

import pytest

from kit.errors import GateError, IntegrityError, KitError, MissingError
from kit.image.progress import BuildProgress, explain, silent, stage_of

RUN = "#7 [stage-0 2/3] RUN --mount=type=bind,from=wheels,target=/wheels     --mount=type=bind,source=inside"


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("#6 [stage-0 1/3] ADD base.tar /", "base system"),
        (RUN, "installing the wheels"),
        (
            "#8 [stage-0 3/3] RUN --mount=type=bind,source=inside --mount=type=bind,source=patches",
            "patches, then bytecode",
        ),
        ("#9 exporting layers", "packing layers"),
        ("#9 exporting layers 67.2s done", "packing layers"),
        ("#9 unpacking to docker.io/vllm-kit/test:1", "unpacking"),
        ("#7 DONE 181.8s", None),
        ("#6 CACHED", None),
        ("", None),
        ("Dockerfile:31", None),
    ],
)
def test_stages_are_read_from_the_lines_that_begin_them(line: str, stage: str | None):
    assert stage_of(line) == stage


def test_each_stage_is_said_once_and_every_line_is_a_detail():
    said: list[str] = []
    detail: list[str] = []
    progress = BuildProgress(said.append, detail.append)
    for line in (RUN, RUN, "#7 DONE 1.0s", "#9 exporting layers", "#9 exporting layers 1.0s done"):
        progress.line(line)
    assert [line.split("] ")[1] for line in said] == ["installing the wheels", "packing layers"]
    assert len(detail) == 5
    silent("")


@pytest.mark.parametrize(
    ("lines", "kind", "message"),
    [
        (["#7 3.1 OSError: [Errno 28] no space left on device"], MissingError, "filled up"),
        (
            ["#7 2.0 ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE."],
            IntegrityError,
            "locked",
        ),
        (['ERROR: process "/bin/sh -c x" did not complete successfully: exit code: 3'], GateError, "patch"),
        (['ERROR: process "/bin/sh -c x" did not complete successfully: exit code: 6'], IntegrityError, "locked"),
        (['ERROR: process "/bin/sh -c x" did not complete successfully: exit code: 1'], KitError, "build failed"),
    ],
)
def test_a_failure_has_the_class_of_its_cause(lines: list[str], kind: type[KitError], message: str):
    error = explain(lines, "/var/lib/docker")
    assert type(error) is kind and message in error.message


def test_the_evidence_is_what_the_step_printed():
    lines = ["#7 [stage-0 2/3] RUN x", "#7 0.5 first", "#7 1.25 error: second", "#7 ERROR: process", "------"]
    assert explain(lines, "/x").evidence == ["first", "error: second"]
