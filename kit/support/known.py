"""The secrets and names that this machine itself knows: found literally, whatever stands around them. An edge."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import socket
from urllib.parse import unquote, urlsplit

from kit.config import Deployment
from kit.errors import KitError
from kit.serve.api import read_key
from kit.support.redact import Rule, literal

_SECRET_NAME = re.compile(r"(?i)(token|secret|passw|credential|api[_-]?key|access[_-]?key|private[_-]?key)")
_COMMON = {"root", "nobody", "user", "admin", "kit", "vllm", "localhost", "daemon", "bin", "sys", "mail", "docker"}
_FIRST_PERSON = 1000  # user ids below belong to the system


def rules_of(deployment: Deployment) -> list[Rule]:
    """Literal rules for the API key, secrets in the environment, proxy passwords, and user and host names."""
    secrets = []
    with contextlib.suppress(KitError):
        secrets.append(read_key(deployment) or "")
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name):
            secrets.append(value)
        with contextlib.suppress(ValueError):
            password = urlsplit(value).password if "://" in value else None
            secrets += [password, unquote(password)] if password else []
    users = {entry.pw_name for entry in pwd.getpwall() if _FIRST_PERSON <= entry.pw_uid < 65000}
    users |= {os.environ.get("USER", ""), os.environ.get("SUDO_USER", "")}
    host = socket.gethostname()
    return [
        *literal("known-secret", "secret", secrets, whole=False),
        *literal("user-name", "user", users - _COMMON, whole=True),
        *literal("host-name", "host", {host, host.split(".")[0]} - _COMMON, whole=True),
    ]
