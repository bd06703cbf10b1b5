"""Finds the Docker engine to use: the one that is there, or the kit's private one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Literal

from kit import proc
from kit.engine import private
from kit.engine.layout import Layout
from kit.engine.ping import ping
from kit.errors import MissingError
from kit.home import kit_home

if TYPE_CHECKING:
    from docker import DockerClient

DEFAULT_HOST = "unix:///var/run/docker.sock"


@dataclass(frozen=True)
class Engine:
    """A Docker engine that answered.

    `kind` is "private" for the kit's own. `source` says how it was found. `docker` is the command
    line client that belongs to it (None: none installed) and `env` what that client, buildx and
    compose need in their environment. `containerd_store`: images live in containerd's store, where
    builds are bit-for-bit reproducible. `cdi`: GPU requests by CDI name are understood.
    """

    kind: Literal["found", "private"]
    host: str
    source: str
    version: str
    containerd_store: bool
    cdi: bool
    runtimes: tuple[str, ...]
    data_root: str
    docker: Path | None
    env: tuple[tuple[str, str], ...]

    def client(self, timeout: int = 120) -> DockerClient:
        """A client of Docker's SDK; the caller closes it (`contextlib.closing`)."""
        return _client(self.host, timeout)

    def cli(self, *args: str | Path) -> list[str]:
        """The argument list of a `docker` command against this engine; run it with `environment`."""
        if self.docker is None:
            raise MissingError(
                "the `docker` command line client is not installed",
                hint="install Docker's CLI with its buildx and compose plugins (Debian: docker-cli docker-buildx "
                "docker-compose; Docker's own packages: docker-ce-cli docker-buildx-plugin docker-compose-plugin)",
            )
        return [str(self.docker), *(str(a) for a in args)]

    @property
    def environment(self) -> dict[str, str]:
        """What `kit.proc` lays over the environment for `cli`."""
        return dict(self.env)

    def need_plugin(self, name: Literal["buildx", "compose"]) -> None:
        """Raise MissingError unless the client has this plugin."""
        done = proc.run(self.cli(name, "version"), env=self.environment, check=False)
        if done.code != 0:
            raise MissingError(
                f"the docker client {self.docker} has no {name} plugin",
                hint=f"install docker-{name}-plugin (Docker's packages) or docker-{name} (the distribution's)",
                evidence=done.err.splitlines()[:3],
            )


def connect(say: Callable[[str], None] = lambda text: None) -> Engine:
    """The engine to use, started if it is the kit's own and stopped.

    Order: DOCKER_HOST; the private engine of this KIT_HOME, once set up; the current Docker
    context; the default socket. Raises MissingError where none answers, saying what to do.
    """
    layout = Layout(kit_home())
    kind: Literal["found", "private"] = "found"
    if host := os.environ.get("DOCKER_HOST", ""):
        source = "DOCKER_HOST"
    elif private.is_set_up(layout):
        kind, host, source = "private", layout.host, f"KIT_HOME={layout.home}"
        private.start(layout, say)
    else:
        host, source = _context()
    if (reason := _reason(host)) is not None:
        raise _unreachable(host, source, reason)
    return _describe(kind, host, source, layout)


def found_host() -> str | None:
    """The address of an engine that is not the kit's own and answers; None without one."""
    host = os.environ.get("DOCKER_HOST") or _context()[0]
    return host if _reason(host) is None else None


def _context() -> tuple[str, str]:
    """The address of Docker's current context, as the docker command reads it."""
    configured = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker"), "config.json")
    if configured.exists() or os.environ.get("DOCKER_CONTEXT"):
        from docker.context import ContextAPI
        from docker.errors import DockerException

        try:
            context = ContextAPI.get_context(os.environ.get("DOCKER_CONTEXT") or None)
        except (DockerException, ValueError, KeyError, OSError) as error:
            raise MissingError(f"Docker's current context cannot be read: {error}", hint="docker context ls") from None
        if context is not None and context.name != "default":
            return str(context.Host), f"Docker context {context.name!r}"
    return DEFAULT_HOST, "the default socket"


def _reason(host: str) -> str | None:
    """Why `host` does not answer; None when it does."""
    if host.startswith("unix://"):
        return ping(host)
    if not host.startswith(("tcp://", "http://", "https://")):
        return "the kit speaks to unix:// and tcp:// addresses"
    from docker.errors import DockerException

    try:
        with contextlib.closing(_client(host, 5)) as client:
            client.ping()
    except (DockerException, ValueError) as error:  # ValueError: no address at all
        return str(error)
    return None


def _client(host: str, timeout: int) -> DockerClient:
    import docker

    if host == os.environ.get("DOCKER_HOST"):  # with the TLS settings beside it
        return docker.from_env(timeout=timeout)
    return docker.DockerClient(base_url=host, timeout=timeout)


def _unreachable(host: str, source: str, reason: str) -> MissingError:
    if reason == "permission denied":
        return MissingError(
            f"Docker is there ({host}) but this user may not use it",
            hint="sudo usermod -aG docker $USER, log out and in again; or run this as root",
        )
    if source != "the default socket":
        hint = f"start that engine, or change {source.split()[0]}"
    elif which("dockerd") and Path("/run/systemd/system").is_dir():
        hint = "systemctl start docker"
    else:
        why_not = private.why_not_here()
        hint = private.INSTALL_HINT if why_not else "kit engine setup   (a private engine; nothing is installed)"
    return MissingError(f"no Docker engine answers at {host} ({source}): {reason}", hint=hint)


def _describe(kind: Literal["found", "private"], host: str, source: str, layout: Layout) -> Engine:
    from docker.errors import DockerException

    try:
        with contextlib.closing(_client(host, 30)) as client:
            info = client.info()
    except (DockerException, ValueError) as error:
        raise MissingError(
            f"the Docker engine at {host} does not answer as one: {error}",
            hint="env | grep DOCKER_ shows what is set; docker info tells more",
        ) from None
    if kind == "private":
        docker: Path | None = layout.root / "usr" / "bin" / "docker"
        env = {"DOCKER_CONFIG": str(layout.cli_config)}
    else:
        installed = which("docker")
        docker, env = (Path(installed) if installed else None), {}
    # the address alone decides: no context, no other builder that the user chose for their own work
    env |= {"DOCKER_HOST": host, "DOCKER_CONTEXT": "", "BUILDX_BUILDER": "default"}
    return Engine(
        kind=kind,
        host=host,
        source=source,
        version=str(info.get("ServerVersion", "")),
        containerd_store=["driver-type", "io.containerd.snapshotter.v1"] in (info.get("DriverStatus") or []),
        cdi=bool(info.get("CDISpecDirs")),
        runtimes=tuple(sorted(info.get("Runtimes") or ())),
        data_root=str(info.get("DockerRootDir", "")),
        docker=docker,
        env=tuple(sorted(env.items())),
    )
