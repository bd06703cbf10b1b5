"""The operator: a machine without network, with Docker on a clean data root, Python, OpenSSL and a bundle.

The machine is a network namespace in which an engine of its own runs. From the check of the signature to the
acceptance report, an upgrade that is killed at several moments, and the way back.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from kit.engine import bridge, private
from kit.engine.layout import Layout
from tests.docker.harness import Box, Done, kit_command, kit_environment

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,  # an engine of its own, the whole image loaded into it, six starts
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        private.why_not_here() is not None or not shutil.which("nsenter"), reason="needs root on Debian or Ubuntu"
    ),
]
KILLED_AFTER_S = (1, 4, 9, 20)


def command(*args: object, limit: float = 1200, **options: object) -> Done:
    done = subprocess.run([*map(str, args)], capture_output=True, text=True, timeout=limit, **options)  # type: ignore[call-overload]
    return Done(done.returncode, done.stdout, done.stderr)


@dataclass
class Bare:
    """The operator's machine: `inside` is the process whose network namespace it is."""

    inside: int
    layout: Layout
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.defpath + ":/usr/sbin", "HOME": str(self.folder), "DOCKER_HOST": self.layout.host}

    def argv(self, *args: object) -> list[str]:
        return ["nsenter", "--net", f"--target={self.inside}", "--", *map(str, args)]

    def run(self, *args: object, limit: float = 1200) -> Done:
        """A command as the operator types it."""
        return command(*self.argv(*args), limit=limit, env=self.environment, cwd=self.folder)

    @property
    def containers(self) -> list[str]:
        asked = self.run(self.layout.root / "usr/bin/docker", "ps", "--format", "{{.ID}} {{.Names}}")
        return asked.out.splitlines()


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Bare]:
    home = tmp_path / "machine"
    layout = Layout(home)
    own = kit_environment() | {"KIT_HOME": str(home)}
    for verb in (("setup", "--private"), ("stop",)):  # a machine that has Docker; its packages came by some network
        done = command(*kit_command("engine", *verb), env=own)
        assert done.code == 0, done.err
    bridge.remove(bridge.name_for(home))  # the one that follows is inside
    with subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) as holder:
        machine = Bare(holder.pid, layout, tmp_path)
        try:
            time.sleep(0.5)
            assert command(*machine.argv("ip", "link", "set", "lo", "up")).code == 0
            started = command(*machine.argv(*kit_command("engine", "start")), env=own)
            assert started.code == 0, started.err
            yield machine
        finally:
            command(*machine.argv(*kit_command("engine", "remove", "--yes")), env=own)
            holder.kill()


@dataclass(frozen=True)
class Handed:
    """What the engineer hands over: two bundles, and by another way the public key."""

    first: Path
    second: Path
    key: Path


@pytest.fixture
def handed(box: Callable[..., Box], tmp_path: Path) -> Handed:
    keys = tmp_path / "keys"
    keys.mkdir()
    private_key, public_key = keys / "kit.key", keys / "kit.pub"
    assert command("openssl", "genpkey", "-algorithm", "ed25519", "-out", private_key).code == 0
    private_key.chmod(0o600)
    assert command("openssl", "pkey", "-in", private_key, "-pubout", "-out", public_key).code == 0
    deployment = box()

    def good(done: Done) -> Done:
        assert done.code == 0, done.err
        return done

    def pack(*options: str) -> Path:
        good(deployment.kit("lock"))
        signed = ["--key", str(private_key), "--out", str(tmp_path / "media"), "--json", "--python", python_version()]
        args = ["bundle", "pack", "-f", deployment.file, *signed, *options]
        return Path(good(command(*kit_command(*args), env=kit_environment(), cwd=tmp_path)).json["path"])

    good(deployment.kit("up"))
    first = pack("--chunk", "300MiB")
    good(deployment.kit("down"))
    values = yaml.safe_load(deployment.file.read_text())
    values["smoke"]["max_tokens"] = 60
    deployment.file.write_text(yaml.safe_dump(values, sort_keys=False))
    return Handed(first, pack("--unqualified", "--one-file"), public_key)


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def test_an_operator_without_network(handed: Handed, bare: Bare, tmp_path: Path, worker_port: int):
    assert bare.run("ip", "-o", "link").out.count("state UP") <= 1  # only the engine's own bridge
    assert bare.run("python3", "-c", "import socket; socket.create_connection(('1.1.1.1', 53), 3)").code != 0
    root, first = tmp_path / "opt", handed.first

    # verify, with OpenSSL and the bundle's own script
    signed = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", handed.key, "-rawin"]
    assert bare.run(*signed, "-in", first / "SHA256SUMS", "-sigfile", first / "SHA256SUMS.sig").code == 0
    assert bare.run("sh", first / "verify.sh", handed.key).code == 0

    # install, to the acceptance report
    began = time.monotonic()
    done = bare.run("sh", first / "install.sh", handed.key, "--to", root)
    print(f"installed in {time.monotonic() - began:.0f} s")
    assert done.code == 0, done.err
    assert f"acceptance of {first.name}: PASS" in done.out
    report = json.loads((root / "current" / "acceptance.json").read_text())
    assert report["verdict"] == "pass"
    assert report["smoke"]["num_accepted_tokens"] == report["qualified"]["num_accepted_tokens"] == 255
    kit = root / "kit"
    assert bare.run(kit, "status").code == 0
    served = bare.containers
    assert len(served) == 1

    # a flipped bit in the next bundle: refused, and what runs is not touched
    second = handed.second
    size = second.stat().st_size
    flip(second, size // 2)
    done = bare.run(kit, "bundle", "install", second, "--key", handed.key)
    assert done.code == 6, done.err
    flip(second, size // 2)
    assert bare.containers == served and bare.run(kit, "status").code == 0

    # the upgrade, killed at several moments
    upgrade = bare.argv(kit, "bundle", "install", second, "--key", handed.key)
    pick = random.Random(4)
    for after in KILLED_AFTER_S:
        with subprocess.Popen(
            upgrade, env=bare.environment, start_new_session=True, stderr=subprocess.DEVNULL
        ) as child:
            time.sleep(after + pick.random())
            os.killpg(child.pid, signal.SIGKILL)
        assert bare.run(kit, "bundle", "list").code == 0
    done = bare.run(kit, "bundle", "install", second, "--key", handed.key)
    assert done.code == 0, done.err
    listed = bare.run(kit, "bundle", "list", "--json").json
    assert [row["state"] for row in listed["releases"]] == ["previous", "current"]
    assert listed["current"] == second.stem
    assert len(bare.containers) == 1 and bare.containers != served

    # and back
    done = bare.run(kit, "bundle", "rollback")
    assert done.code == 0, done.err
    assert f"{second.stem} -> {first.name}" in done.out
    assert bare.run(kit, "bundle", "list", "--json").json["current"] == first.name
    assert bare.run(kit, "smoke").code == 0

    # the other one is removed, but not the image, which this one has too
    assert bare.run(kit, "bundle", "remove", first.name).code == 2
    done = bare.run(kit, "bundle", "remove", second.stem)
    assert (done.code, done.out) == (0, f"removed release {second.stem}\n"), done.err
    assert [row["release"] for row in bare.run(kit, "bundle", "list", "--json").json["releases"]] == [first.name]
    assert bare.run(kit, "smoke").code == 0
    assert bare.run(kit, "down").code == 0
    assert bare.containers == []


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as handle:
        handle.seek(at)
        byte = handle.read(1)[0]
        handle.seek(at)
        handle.write(bytes([byte ^ 1]))
