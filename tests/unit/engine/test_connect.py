"""Finding an engine: which address counts, and what is said when none answers."""

import os
import socket
import threading
from pathlib import Path

import pytest

from kit.engine import connect
from kit.engine.layout import Layout
from kit.engine.ping import ping
from kit.errors import MissingError


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No engine of this machine in sight: own KIT_HOME, no Docker settings."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    return tmp_path


def answering(path: Path, answer: bytes) -> socket.socket:
    """A Unix socket that gives one fixed answer to each caller."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            with caller:
                caller.recv(1000)
                caller.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return listener


def test_ping_tells_an_engine_from_no_socket_and_from_another_service(tmp_path: Path):
    with answering(tmp_path / "good", b"HTTP/1.0 200 OK\r\n\r\nOK"), answering(tmp_path / "other", b"SSH-2.0\r\n"):
        assert ping(f"unix://{tmp_path}/good") is None
        assert ping(f"unix://{tmp_path}/other") == "something else than a Docker engine answers"
    assert ping(f"unix://{tmp_path}/absent") == "no such socket"
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "deaf"))
        assert ping(f"unix://{tmp_path}/deaf") == "Connection refused"
    assert "scheme" in (ping("ssh://somewhere") or "")


def test_docker_host_is_final(alone: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{alone}/gone.sock")
    with pytest.raises(MissingError) as caught:
        connect()
    assert "gone.sock (DOCKER_HOST): no such socket" in caught.value.message
    assert caught.value.hint == "start that engine, or change DOCKER_HOST"


def test_a_docker_host_that_is_no_address(alone: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCKER_HOST", "http://[::1")
    with pytest.raises(MissingError, match="Invalid IPv6 URL") as caught:
        connect()
    assert caught.value.hint == "start that engine, or change DOCKER_HOST"


def test_the_current_context_is_read(alone: Path, monkeypatch: pytest.MonkeyPatch):
    import hashlib
    import json

    folder = alone / "docker" / "contexts" / "meta" / hashlib.sha256(b"lab").hexdigest()
    folder.mkdir(parents=True)
    (alone / "docker" / "config.json").write_text(json.dumps({"currentContext": "lab"}))
    endpoint = {"Host": f"unix://{alone}/lab.sock", "SkipTLSVerify": False}
    (folder / "meta.json").write_text(json.dumps({"Name": "lab", "Metadata": {}, "Endpoints": {"docker": endpoint}}))
    with pytest.raises(MissingError, match=r"lab\.sock \(Docker context 'lab'\)"):
        connect()


def test_permission_denied_says_how_to_get_it(alone: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kit.engine.find.ping", lambda host: "permission denied")
    with pytest.raises(MissingError) as caught:
        connect()
    assert "this user may not use it" in caught.value.message
    assert "usermod -aG docker" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("why_not", "said"),
    [(None, "kit engine setup"), ("a private engine needs root", "install Docker Engine with its buildx")],
)
def test_no_engine_says_what_to_do(alone: Path, monkeypatch: pytest.MonkeyPatch, why_not: str | None, said: str):
    monkeypatch.setattr("kit.engine.find.ping", lambda host: "no such socket")
    monkeypatch.setattr("kit.engine.find.which", lambda name: None)
    monkeypatch.setattr("kit.engine.private.why_not_here", lambda: why_not)
    with pytest.raises(MissingError) as caught:
        connect()
    assert caught.value.message == (
        "no Docker engine answers at unix:///var/run/docker.sock (the default socket): no such socket"
    )
    assert said in (caught.value.hint or "")


def test_sockets_fit_the_kernel_limit_however_long_the_home(tmp_path: Path):
    near, far = Layout(Path("/srv/kit")), Layout(Path("/srv") / ("long" * 30))
    assert near.socket == Path("/srv/kit/engine/run/docker.sock")
    assert str(far.socket).startswith("/run/kit-")
    assert len(str(far.run / "exec/containerd/containerd.sock.ttrpc")) < 108


def test_two_homes_share_nothing(tmp_path: Path):
    one, two = Layout(tmp_path / "a").daemon_config(), Layout(tmp_path / "b").daemon_config()
    for key in ("data-root", "exec-root", "pidfile", "hosts", "bridge"):
        assert one[key] != two[key], key
    assert one["iptables"] is False and one["ip-forward"] is False
    assert len(one["bridge"]) <= 15


def test_home_is_absolute(monkeypatch: pytest.MonkeyPatch):
    from kit.home import kit_home

    monkeypatch.setenv("KIT_HOME", "relative")
    assert kit_home() == Path.cwd() / "relative"
    monkeypatch.delenv("KIT_HOME")
    assert kit_home() == Path(os.environ.get("HOME", str(Path.home()))) / ".local" / "share" / "kit"
