"""Where a private engine keeps its parts, and the daemon's configuration; no I/O."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.engine import bridge

# A Unix socket's path ends at 107 bytes; containerd's longest below the exec root is this one.
_LONGEST = "exec/containerd/containerd.sock.ttrpc"
_SOCKET_PATH_LIMIT = 107


@dataclass(frozen=True)
class Layout:
    """The folders and files of one KIT_HOME's private engine."""

    home: Path

    @property
    def folder(self) -> Path:
        """Everything of the engine; removing it (after a stop) removes the engine."""
        return self.home / "engine"

    @property
    def lock(self) -> Path:
        return self.home / "engine.lock"

    @property
    def root(self) -> Path:
        """The unpacked packages."""
        return self.folder / "packages"

    @property
    def state(self) -> Path:
        """Written last by a set-up: an engine without it is not set up."""
        return self.folder / "engine.json"

    @property
    def config(self) -> Path:
        return self.folder / "daemon.json"

    @property
    def log(self) -> Path:
        return self.folder / "dockerd.log"

    @property
    def data(self) -> Path:
        """Images, containers and volumes."""
        return self.folder / "data"

    @property
    def cli_config(self) -> Path:
        """A DOCKER_CONFIG of our own, which finds our buildx and compose and nobody's logins."""
        return self.folder / "cli"

    @property
    def run(self) -> Path:
        """Sockets and other state of the running daemon; below /run where KIT_HOME's path is too long for sockets."""
        near = self.folder / "run"
        if len(str(near / _LONGEST)) <= _SOCKET_PATH_LIMIT:
            return near
        return Path("/run") / ("kit-" + hashlib.sha256(str(self.home).encode()).hexdigest()[:8])

    @property
    def socket(self) -> Path:
        return self.run / "docker.sock"

    @property
    def pidfile(self) -> Path:
        return self.run / "docker.pid"

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    def daemon_config(self) -> dict[str, Any]:
        """The daemon's configuration.

        The host's firewall and forwarding stay as they are: containers reach each other and are
        reached through published loopback ports (docker-proxy), which is all that the kit uses.
        """
        return {
            "data-root": str(self.data),
            "exec-root": str(self.run / "exec"),
            "pidfile": str(self.pidfile),
            "hosts": [self.host],
            "group": "root",
            "bridge": bridge.name_for(self.home),
            "iptables": False,
            "ip6tables": False,
            "ip-forward": False,
            "ip-masq": False,
            "features": {"containerd-snapshotter": True, "cdi": True},
            "builder": {"gc": {"enabled": True, "defaultKeepStorage": "6GB"}},
            "log-opts": {"max-size": "50m", "max-file": "3"},
        }

    def daemon_env(self, path: str) -> dict[str, str]:
        """The daemon's environment: our programs and their libraries before the machine's (`path`)."""
        libraries = sorted(str(p) for p in self.root.glob("usr/lib/*-linux-gnu"))
        plugins = sorted(str(p) for p in self.root.glob("usr/lib/*-linux-gnu/xtables"))
        env = {"PATH": f"{self.root}/usr/sbin:{self.root}/usr/bin:{path}"}
        if libraries:
            env["LD_LIBRARY_PATH"] = ":".join(libraries)
        if plugins:
            env["XTABLES_LIBDIR"] = ":".join(plugins)
        return env
