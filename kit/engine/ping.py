"""Asks a Docker engine's address whether one answers there; quick, with the standard library alone."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


def ping(host: str, timeout: float = 5.0) -> str | None:
    """None when a Docker engine answers at `host` (unix:// or tcp://), else why not, in a few words."""
    where = urlsplit(host)
    try:
        if where.scheme == "unix":
            handle = socket.socket(socket.AF_UNIX)
            handle.settimeout(timeout)
            target: str | tuple[str, int] = where.path
        elif where.scheme in ("tcp", "http") and where.hostname:
            handle = socket.socket(socket.AF_INET)
            handle.settimeout(timeout)
            target = (where.hostname, where.port or 2375)
        else:
            return f"{where.scheme or 'no'} scheme is not supported; unix:// and tcp:// are"
        with handle:
            handle.connect(target)
            handle.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            answer = handle.recv(4096)
    except PermissionError:
        return "permission denied"
    except FileNotFoundError:
        return "no such socket"
    except TimeoutError:
        return f"no answer within {timeout:g} s"
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None if b" 200 " in answer.split(b"\r\n", 1)[0] else "something else than a Docker engine answers"
