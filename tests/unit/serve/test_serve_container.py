"""What the engine answers, turned into the errors that decide what happens next."""

import pytest
from docker.errors import APIError

from kit.errors import MissingError
from kit.serve.container import LimitsRefused, docker_errors, may_be_going

# As runc 1.1 says it where the engine itself runs without CAP_SYS_RESOURCE.
REFUSED = (
    "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: error setting rlimits for ready process: "
    "error setting rlimit type 8: operation not permitted"
)


def test_an_engine_that_may_not_raise_limits_is_told_apart():
    with pytest.raises(LimitsRefused) as caught, docker_errors("starting container x"):
        raise APIError("500", explanation=REFUSED)
    assert caught.value.evidence == [REFUSED]


def test_an_engine_without_gpus_names_what_is_missing():
    with pytest.raises(MissingError, match="cannot give GPUs"), docker_errors("creating container x"):
        raise APIError("400", explanation="CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all")


@pytest.mark.parametrize(
    "said",
    [
        'Cannot update container bdcd30: container is marked for removal and cannot be "update"',
        "removal of container bdcd30 is already in progress",
    ],
)
def test_a_container_that_the_engine_is_removing_already_is_fine(said: str):
    with may_be_going():
        raise APIError("409", explanation=said)


def test_other_refusals_are_none_of_that():
    with pytest.raises(APIError), may_be_going():
        raise APIError("409", explanation="container bdcd30 is paused")
