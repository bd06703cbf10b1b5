"""A twin as a plain process: an installed CPU build of vLLM with some of its files laid over, no container.

The installed vLLM is not touched: its Python files are copied into a folder that comes first on the path.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kit import proc
from kit.config import Deployment
from kit.errors import MissingError
from kit.rehearse import states
from kit.render.arguments import environment, serve_arguments, speculative_config
from kit.serve.api import ApiError, api_of
from kit.serve.prepare import write_reference

# What the image of the twin has in its environment: no GPU to be seen, Triton's kernels in Python.
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "1"}
POLL_S = 0.5
GRACE_S = 10


@dataclass(frozen=True)
class Ended:
    """How the wait ended: ready, or why not; seconds since the start."""

    ready: bool
    reason: str
    seconds: float


def installed_site(python: Path) -> tuple[Path, str]:
    """The site-packages of an interpreter and the vLLM in it. Raises MissingError when there is none."""
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    site = Path(proc.run([python, "-c", code]).out.strip())
    if not (site / "vllm" / "__init__.py").is_file():
        raise MissingError(f"no vLLM is installed for {python}", hint="install the CPU build there, with pip")
    from kit.patches.inside.common import Refused, installed_version

    try:
        return site, installed_version(site)
    except Refused as refused:
        raise MissingError(refused.message) from None


def overlay(site: Path, folder: Path, files: Mapping[str, str]) -> None:
    """Copy vLLM's package to `folder`, with `files` (path below site-packages -> text) in place of its own."""
    shutil.copytree(site / "vllm", folder / "vllm", ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in files.items():
        (folder / path).write_bytes(text.encode())
    shutil.copy(states.__file__, folder / "states.py")


@contextlib.contextmanager
def served(deployment: Deployment, python: Path, folder: Path, log: Path) -> Iterator[Ended]:
    """Serve a twin from an overlay until the block ends; yields how the wait for it ended."""
    write_reference(deployment)
    server = deployment.kit.server
    command = [str(python), "-m", "vllm.entrypoints.cli.main", "serve", str(deployment.target)]
    command += ["--host", server.host, "--port", str(server.port)]
    command += ["--speculative-config", str(speculative_config(deployment, str(deployment.drafter)))]
    command += [word for row in serve_arguments(deployment) for word in row]
    began = time.monotonic()
    pid = proc.daemon(
        command, log=log, env={**NO_GPU, **environment(deployment), "PYTHONPATH": str(folder), "HOME": str(folder)}
    )
    try:
        yield _wait(deployment, pid, log, began)
    finally:
        _stop(pid)


def _wait(deployment: Deployment, pid: int, log: Path, began: float) -> Ended:
    api, size, grown = api_of(deployment), 0, time.monotonic()
    while True:
        now = time.monotonic()
        if os.waitpid(pid, os.WNOHANG)[0]:
            return Ended(False, "the engine ended", now - began)
        with contextlib.suppress(ApiError):
            if deployment.kit.model.served_name in api.models():
                return Ended(True, "ready", now - began)
        if log.stat().st_size > size:
            size, grown = log.stat().st_size, now
        if now - grown > deployment.kit.limits.stall_timeout or now - began > deployment.kit.limits.start_timeout:
            return Ended(False, "not ready in time", now - began)
        time.sleep(POLL_S)


def _stop(pid: int) -> None:
    """End the engine and everything that it started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, sign)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            try:
                os.killpg(pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)
