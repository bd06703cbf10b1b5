"""Whether the API's port can be bound on this machine."""

from __future__ import annotations

import errno
import socket

from kit.config import Deployment
from kit.errors import MissingError


def need_free_port(deployment: Deployment) -> None:
    """Raise MissingError when another process holds the port."""
    host, port = deployment.kit.server.host, deployment.kit.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise MissingError(
                    f"port {port} on {host} is taken by another process",
                    hint=f"ss -ltnp 'sport = :{port}' shows by whom; or set server.port in kit.yaml",
                ) from None
            raise MissingError(
                f"cannot bind {host}:{port}: {error.strerror}", hint="mend server.host and server.port in kit.yaml"
            ) from None
