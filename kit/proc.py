"""The only place that starts a process.

Commands are lists, never shell strings, so nothing a person or a log wrote can reach a shell.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.errors import KitError, MissingError


@dataclass(frozen=True)
class Done:
    """A finished process: its arguments, exit status (negative: ended by that signal) and output."""

    args: tuple[str, ...]
    code: int
    out: str
    err: str


class ProcessFailed(KitError):
    """A helper process ended with an error nobody upstream has a better name for."""


class ProcessSilent(ProcessFailed):
    """A helper process said nothing for longer than it may."""


def run(
    args: Sequence[str | Path],
    *,
    check: bool = True,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    hint: str | None = None,
) -> Done:
    """Run a command to its end and return what it said, as text.

    `env` is laid over the present environment. Raises MissingError when the program is not
    there or may not be run, ProcessFailed on a status other than 0 (with `check`) or on a
    time-out (`timeout`, seconds); on Ctrl-C the whole process group is ended first.
    """
    argv = tuple(str(a) for a in args)
    feed = subprocess.PIPE if stdin is not None else subprocess.DEVNULL
    with _group(argv, env=env, cwd=cwd, hint=hint, stdin=feed, stderr=subprocess.PIPE) as child:
        try:
            out, err = child.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(
                f"{argv[0]} did not finish within {timeout:g} s", hint=hint, evidence=[" ".join(argv)]
            ) from None
    done = Done(argv, child.returncode, out, err)
    if check and done.code != 0:
        raise failed(done, hint)
    return done


def stream(
    args: Sequence[str | Path],
    on_line: Callable[[str], None],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    hint: str | None = None,
    check: bool = True,
) -> Done:
    """Run a command, handing each line (stdout and stderr together) to `on_line` as it comes.

    Returns Done with the last 200 lines in `out`. Raises like `run`.
    """
    argv = tuple(str(a) for a in args)
    tail: list[str] = []
    with _group(argv, env=env, cwd=cwd, hint=hint, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT) as child:
        assert child.stdout is not None
        for line in child.stdout:
            tail.append(line.rstrip("\r\n"))
            del tail[:-200]
            on_line(tail[-1])
        child.wait()
    done = Done(argv, child.returncode, "\n".join(tail), "")
    if check and done.code != 0:
        raise failed(done, hint)
    return done


def daemon(args: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None) -> int:
    """Start a process that outlives this one, its output going to `log`; returns its process id.

    It has its own session, so a Ctrl-C here does not reach it. Raises MissingError like `run`.
    """
    argv = tuple(str(a) for a in args)
    try:
        with log.open("wb") as output:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_env(env),
                cwd="/",
                start_new_session=True,
            ).pid
    except OSError as error:
        raise _no_start(argv[0], error, None) from None


@contextlib.contextmanager
def _group(
    argv: tuple[str, ...],
    *,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    hint: str | None,
    stdin: int,
    stderr: int,
) -> Iterator[subprocess.Popen[str]]:
    """A process that speaks text, as the head of a group of its own; when the body raises, the group is ended."""
    try:
        child = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            errors="replace",
            env=_env(env),
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise _no_start(argv[0], error, hint) from None
    with child:
        try:
            yield child
        except BaseException:
            end_group(child)
            raise


def _no_start(program: str, error: OSError, hint: str | None) -> MissingError:
    if error.filename not in (None, program):  # the folder it was to run in, or the log it was to write
        return MissingError(f"cannot start {program!r} with {error.filename}: {error.strerror}", hint=hint)
    hint = hint or (f"ls -l {program}" if "/" in program else f"install it, or mend PATH: command -v {program}")
    if isinstance(error, FileNotFoundError):
        return MissingError(f"the program {program!r} is not installed", hint=hint)
    if isinstance(error, PermissionError):
        return MissingError(f"the program {program!r} may not be run by this user", hint=hint)
    return MissingError(f"cannot start {program!r}: {error.strerror}", hint=hint)


def lines(
    args: Sequence[str | Path], *, silence: Callable[[], float], env: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a command and yield its lines (stdout and stderr together) as they come.

    `silence()` is asked before each wait: the seconds the next line may take. When they have passed the process
    group is killed, and not waited for: a process inside a hung driver call may not die at all. Then ProcessSilent
    is raised; ProcessFailed when the process ended badly.
    """
    argv = tuple(str(a) for a in args)
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_env(env),
            start_new_session=True,
        )
    except OSError as error:
        raise _no_start(argv[0], error, None) from None
    assert child.stdout is not None
    tail: list[str] = []
    rest = b""
    try:
        with child.stdout as pipe:
            while True:
                limit = silence()
                if not select.select([pipe], [], [], limit)[0]:
                    raise ProcessSilent(f"{argv[0]} said nothing for {limit:g} s", evidence=tail)
                chunk = os.read(pipe.fileno(), 65536)
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole if chunk else filter(None, [rest]):
                    tail.append(line.decode(errors="replace"))
                    del tail[:-12]
                    yield tail[-1]
                if not chunk:
                    break
        code = child.wait(5)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(1)
        raise
    if code != 0:
        raise failed(Done(argv, code, "\n".join(tail), ""))


def failed(done: Done, hint: str | None = None) -> ProcessFailed:
    """The error for a process that ended badly, with the end of what it printed as evidence."""
    how = f"was ended by signal {-done.code}" if done.code < 0 else f"ended with status {done.code}"
    last = [line for line in (done.err or done.out).splitlines() if line.strip()][-12:]
    return ProcessFailed(f"{done.args[0]} {how}", hint=hint, evidence=[" ".join(done.args)[:300], *last])


def end_group(child: subprocess.Popen[str], grace: float = 5.0) -> None:
    """Ask the child's process group to stop, then make it stop."""
    for sig, wait in ((signal.SIGTERM, grace), (signal.SIGKILL, grace)):
        try:
            os.killpg(child.pid, sig)
        except ProcessLookupError:
            break
        try:
            child.wait(wait)
            break
        except subprocess.TimeoutExpired:
            continue


def _env(extra: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if extra is None else {**os.environ, **extra}


def divided(work: Callable[[int], bytes], parts: int) -> list[bytes]:
    """Run `work(0)` to `work(parts - 1)` side by side in forked copies of this process; their answers, in order.

    For pure computation on files. Where this process has threads or one processor, all runs here, one by one.
    """
    import threading

    if parts < 2 or threading.active_count() > 1 or len(os.sched_getaffinity(0)) < 2:
        return [work(part) for part in range(parts)]
    children: list[tuple[int, int]] = []
    for part in range(1, parts):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reading)
                with os.fdopen(writing, "wb") as pipe:
                    pipe.write(work(part))
                os._exit(0)
            finally:
                os._exit(1)
        os.close(writing)
        children.append((child, reading))
    answers = [work(0)]
    for part, (child, reading) in enumerate(children, start=1):
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        answers.append(answer if status == 0 else work(part))
    return answers
