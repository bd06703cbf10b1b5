"""The lock of a deployment: reads back, and its differences in words."""

import pytest

from kit.errors import UsageError
from kit.lock.document import Identity, Lock, LockedImage, differences, dump, load, make

ONE, TWO = "1" * 64, "2" * 64


def lock(**changes: dict[str, str]) -> Lock:
    parts = {
        "files": {"kit.yaml": ONE},
        "models": {"target": f"reference kimi-k2.5 sha256:{ONE}"},
        "debian": {"bash": f"5.2 sha256:{ONE}"},
        "wheels": {"torch": f"2.13.0+cpu sha256:{ONE}"},
    } | changes
    image = LockedImage(reference="vllm-kit/x:1-abc", input=ONE, vllm="0.32.0", epoch=1, patches=["a", "b"])
    return make("demo", image, **parts)


def test_a_lock_reads_back_as_written():
    assert load(dump(lock()), "kit.lock") == lock()


def test_the_identity_does_not_change_the_digest():
    known = lock().model_copy(
        update={"image": lock().image.model_copy(update={"identity": Identity(config="sha256:x", tree=TWO)})}
    )
    assert load(dump(known), "kit.lock").digest == lock().digest
    assert differences(lock(), known) == []


def test_differences_are_one_line_each_in_words():
    new = lock(
        wheels={"torch": f"2.14.0+cpu sha256:{TWO}", "new": f"1.0 sha256:{TWO}"},
        debian={"bash": f"5.2 sha256:{TWO}"},
        files={"kit.yaml": TWO},
        models={},
    )
    assert differences(lock(), new) == [
        f"Debian package bash: the same version 5.2 with OTHER CONTENT ({ONE[:12]} -> {TWO[:12]})",
        "wheel new: new, 1.0",
        "wheel torch: 2.13.0+cpu -> 2.14.0+cpu",
        f"file kit.yaml: changed ({ONE[:12]} -> {TWO[:12]})",
        "model target: gone (was reference kimi-k2.5)",
    ]
    assert differences(lock(), lock()) == []
    assert differences(None, lock()) == ["first lock of demo: 1 Debian packages, 1 wheels, 1 files"]


@pytest.mark.parametrize("text", ["", "[1]", "schema: kit.lock/2\n", "a: [\n", dump(lock()) + "surprise: 1\n"])
def test_something_else_is_refused(text: str):
    with pytest.raises(UsageError, match=r"kit\.lock: not a lock"):
        load(text, "kit.lock")


def test_a_damaged_lock_says_how_to_go_on() -> None:
    for text in ("", "[" * 100_000, "a: 2024-13-99", "9" * 5000, "schema: kit.lock/9"):
        with pytest.raises(UsageError, match=r"x\.lock: not a lock") as caught:
            load(text, "x.lock")
        assert caught.value.hint == "git checkout x.lock brings it back; or remove it, then: kit lock"
