"""The list of wheels: which file of a package is chosen, and that the list reads back as it was written."""

import pytest

from kit.errors import UsageError
from kit.lock.wheels import Wheel, dump, from_pylock, load, platforms

A, B, C = "a" * 64, "b" * 64, "c" * 64


def package(name: str, *files: str, hashes: str = A) -> dict:
    wheels = [{"url": f"https://index.example/{f}", "size": 7, "hashes": {"sha256": hashes}} for f in files]
    return {"packages": [{"name": name, "version": "1.0", "wheels": wheels}]}


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (["x-1.0-py3-none-any.whl", "x-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"], 1),
        (["x-1.0-cp311-cp311-manylinux_2_17_x86_64.whl", "x-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"], 1),
        (["x-1.0-cp39-abi3-manylinux_2_31_x86_64.whl", "x-1.0-cp312-cp312-manylinux_2_28_x86_64.whl"], 0),
        (["x-1.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", "x-1.0-py3-none-any.whl"], 0),
        (["x-1.0-cp311-cp311-win_amd64.whl", "x-1.0-py2.py3-none-any.whl"], 1),
    ],
)
def test_the_best_wheel_for_this_python_and_platform_is_taken(files: list[str], chosen: int):
    assert [w.file for w in from_pylock(package("x", *files), "3.11", 36)] == [files[chosen]]


@pytest.mark.parametrize(
    "file", ["x-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", "x-1.0-cp311-cp311-manylinux_2_39_x86_64.whl"]
)
def test_a_package_without_a_usable_wheel_is_refused_by_name(file: str):
    with pytest.raises(UsageError) as caught:
        from_pylock(package("x", file), "3.11", 36)
    assert caught.value.evidence == ["x==1.0"]


def test_a_wheel_without_hash_is_not_taken():
    document = package("x", "x-1.0-py3-none-any.whl")
    document["packages"][0]["wheels"][0]["hashes"] = {"md5": "0"}
    with pytest.raises(UsageError):
        from_pylock(document, "3.11", 36)


def test_names_and_addresses_are_normalised():
    found = from_pylock(package("My_Pkg", "my_pkg-1.0%2Bcpu-py3-none-any.whl"), "3.11", 36)
    assert found == [Wheel("my-pkg", "1.0", "my_pkg-1.0+cpu-py3-none-any.whl", 7, A)]


def test_a_list_reads_back_as_written_and_names_no_index():
    wheels = [Wheel("b", "2.0+cpu", "b-2.0+cpu-py3-none-any.whl", 12, B), Wheel("a", "1", "a-1-py3-none-any.whl", 0, A)]
    text = dump(wheels, ["a comment"])
    assert load(text, "x.lock") == sorted(wheels)
    assert "://" not in text
    assert text.splitlines()[1:3] == ["a==1 \\", f"    --hash=sha256:{A}  # a-1-py3-none-any.whl 0"]


@pytest.mark.parametrize(
    "text",
    [
        "a==1\n",
        f"a==1 \\\n    --hash=sha256:{A[:-1]}  # a-1-py3-none-any.whl 0\n",
        dump([Wheel("a", "1", "a-1-py3-none-any.whl", 0, A), Wheel("a", "2", "a-2-py3-none-any.whl", 0, C)]),
        "-r other.txt\n",
    ],
)
def test_a_damaged_list_is_refused(text: str):
    with pytest.raises(UsageError, match=r"x\.lock"):
        load(text, "x.lock")


def test_platforms_run_from_the_newest_glibc_down():
    names = platforms(17)
    assert names[:2] == ["manylinux_2_17_x86_64", "manylinux2014_x86_64"]
    assert names[-2:] == ["manylinux1_x86_64", "linux_x86_64"]
