"""A private engine's life: two set-ups at once, crashes, stale files, removal without a trace. Needs root and apt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kit.engine import bridge, private
from kit.engine.layout import Layout

pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(300),
    pytest.mark.skipif(private.why_not_here() is not None, reason="needs root on Debian or Ubuntu"),
]


def kit(home: Path, *args: str) -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("DOCKER_")} | {"KIT_HOME": str(home)}
    command = [sys.executable, "-m", "kit", "engine", *args]
    return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def said(child: subprocess.Popen[str]) -> str:
    out, err = child.communicate()
    assert child.returncode == 0, err
    return out + err


def test_a_private_engine_from_set_up_to_removal(tmp_path: Path):
    layout = Layout(tmp_path)
    killed = kit(tmp_path, "setup", "--private")
    time.sleep(3)  # anywhere in the middle: what it leaves must not hinder the next
    killed.send_signal(signal.SIGKILL)
    killed.communicate()

    both = [kit(tmp_path, "setup", "--private"), kit(tmp_path, "setup", "--private")]
    for child in both:
        said(child)
    assert len(private.pids(layout, "dockerd")) == 1
    assert "private engine" in said(kit(tmp_path, "status"))

    os.kill(private.pids(layout, "dockerd")[0], signal.SIGKILL)
    layout.pidfile.write_text(str(os.getpid()))  # the number now belongs to a living process that is no dockerd
    assert "private engine" in said(kit(tmp_path, "status"))
    assert len(private.pids(layout, "dockerd")) == 1

    said(kit(tmp_path, "stop"))
    assert private.pids(layout) == []
    assert "was not running" in said(kit(tmp_path, "stop"))

    said(kit(tmp_path, "remove", "--yes"))
    assert not layout.folder.exists() and not layout.run.exists()
    assert not bridge.exists(bridge.name_for(tmp_path))
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
