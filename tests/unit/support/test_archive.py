"""The archive: whole, private, honest about what it holds, and readable by kit diagnose."""

import io
import json
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from kit.errors import UsageError
from kit.logs import inputs
from kit.support.archive import write
from kit.support.collect import HEAD, TAIL, Piece, clipped
from kit.support.redact import Redactor, rules

ROOT = Path(__file__).parents[3]
PIECES = [
    Piece("kit.yaml", "server: {host: 10.4.4.4}\n"),
    Piece("container.log", "password=hunter22\n(APIServer pid=1) INFO 11-29 15:42:40 [x.py:1] hi\n"),
    Piece("runs/a/container.log", "older\n"),
]


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {}
        for member in archive.getmembers():
            handle = archive.extractfile(member)
            assert handle is not None
            found[member.name.split("/", 1)[1]] = handle.read().decode()
        return found


def test_everything_is_redacted_listed_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "support-x.tar.gz"
    done = write(path, iter(PIECES), Redactor(rules()), ["asked 10.4.4.4"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = unpacked(path)
    assert found["kit.yaml"] == "server: {host: [address-1]}\n"
    assert "hunter22" not in "".join(found.values()) and "10.4.4.4" not in "".join(found.values())
    listed = json.loads(found["redactions.json"])
    assert listed["redacted"] and listed["total"] == 2 and len(done) == 3
    assert {(r["file"], r["line"], r["rule"]) for r in listed["where"]} == {
        ("kit.yaml", 1, "ipv4"),
        ("container.log", 1, "named-secret"),
    }
    assert "1  named-secret" in found["README.txt"] and "asked [address-1]" in found["README.txt"]


def test_without_redaction_it_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s.tar.gz"
    assert write(path, iter(PIECES), None, []) == []
    assert "NOTHING WAS REDACTED" in unpacked(path)["README.txt"]
    assert not json.loads(unpacked(path)["redactions.json"])["redacted"]


def test_a_piece_that_fails_leaves_no_archive(tmp_path: Path) -> None:
    def broken():  # type: ignore[no-untyped-def]
        yield PIECES[0]
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        write(tmp_path / "s.tar.gz", broken(), None, [])
    assert list(tmp_path.iterdir()) == []


def test_long_files_keep_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(b"A" * HEAD + b"B" * 1000 + b"C" * TAIL)
    text = clipped(path)
    assert text.startswith("A" * 10) and text.endswith("C" * 10) and "B" not in text
    assert "[kit support: 1000 bytes left out here]" in text
    (tmp_path / "short").write_text("x")
    assert clipped(tmp_path / "short") == "x"


def test_diagnose_reads_the_log_in_the_bundle(tmp_path: Path) -> None:
    path = tmp_path / "support-x.tar.gz"
    log = (ROOT / "tests/data/logs/cpu/draft_fc_shape.log").read_bytes().decode()
    write(path, iter([Piece("runs.txt", "x" * 3_000_000), Piece("container.log", log)]), Redactor(rules()), [])
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    args = [sys.executable, "-m", "kit", "diagnose", str(path), "--json"]
    done = subprocess.run(args, capture_output=True, text=True, env=env)
    found = json.loads(done.stdout)
    assert done.returncode == 4
    assert (found["root_cause"]["category"], found["root_cause"]["line"]) == ("spec-draft-load", 135)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_any_archive_with_a_container_log(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        link = tarfile.TarInfo("a/container.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        member = tarfile.TarInfo("b/container.log")
        member.size = 6
        archive.addfile(member, io.BytesIO(b"hello\n"))
    assert b"".join(inputs.chunks(path)) == b"hello\n"
    assert inputs.packed(path)


def test_an_archive_without_one_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("other"), io.BytesIO())
    with pytest.raises(UsageError, match="holds no container"):
        list(inputs.chunks(path))
