"""A private Docker engine from the distribution's packages: set up, start, stop, remove.

Its packages are unpacked, not installed; its data, sockets, bridge and processes are its own, so
no other engine of the machine is touched. Every function may be run again after a crash at any point.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from kit import files, proc
from kit.engine import apt, bridge
from kit.engine.distributions import Distribution, choose
from kit.engine.layout import Layout
from kit.engine.ping import ping
from kit.errors import KitError, MissingError
from kit.parse import json_of

Say = Callable[[str], None]

_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 40.0
_SPACE_NEEDED = 1 << 30  # packages 90 MB, unpacked 350 MB, and room for a log
INSTALL_HINT = (
    "install Docker Engine with its buildx and compose plugins, start it, and run this again "
    "(Debian and Ubuntu as root: `kit engine setup` makes a private one)"
)


def is_set_up(layout: Layout) -> bool:
    """Whether a set-up went to its end."""
    return layout.state.is_file()


def versions(layout: Layout) -> dict[str, str]:
    """Package name -> version of the engine that is set up."""
    return dict(json_of(layout.state.read_text())["packages"])


def why_not_here() -> str | None:
    """Why no private engine can be set up on this machine; None when one can."""
    if os.geteuid() != 0:
        return "a private engine needs root"
    if not apt.available() or _distribution() is None:
        return "a private engine is made only on Debian 12 or later and Ubuntu 22.04 or later"
    return None


def setup(layout: Layout, say: Say) -> None:
    """Set the engine up (nothing to do where it is) and start it.

    Raises MissingError when this machine cannot have one, lacks space, or its archive is out of reach.
    """
    with files.locked(layout.lock, what="setting up the engine", wait=True):
        if not is_set_up(layout):
            _unpack(layout, say)
        _start(layout, say)


def start(layout: Layout, say: Say) -> None:
    """Start the engine where it does not answer, and wait until it does."""
    with files.locked(layout.lock, what="starting the engine", wait=True):
        _start(layout, say)


def stop(layout: Layout, say: Say) -> bool:
    """Stop the engine and its containers; false when it was not running."""
    with files.locked(layout.lock, what="stopping the engine", wait=True):
        return _stop(layout, say)


def remove(layout: Layout, say: Say) -> None:
    """Stop the engine and delete everything it had: images, containers, volumes, packages, bridge."""
    with files.locked(layout.lock, what="removing the engine", wait=True):
        with contextlib.suppress(KitError):  # one that cannot start has no more than files to delete
            if is_set_up(layout):
                _start(layout, say)
                _prune_networks(layout)
        _stop(layout, say)
        layout.state.unlink(missing_ok=True)
        _unmount_below(layout.folder, layout.run)
        for folder in (layout.folder, layout.run):
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():
                raise MissingError(f"cannot delete all of {folder}", hint=f"umount what is below it; rm -r {folder}")
        bridge.remove(bridge.name_for(layout.home))


def pids(layout: Layout, *programs: str) -> list[int]:
    """The living processes of this engine: dockerd by its configuration file, containerd and shims by their sockets.

    `programs` narrows them to these names.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            args = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        program = Path(args[0]).name
        ours = program == "dockerd" and f"--config-file={layout.config}" in args
        if program.startswith("containerd"):
            ours = any(arg.startswith(f"{layout.run}/") for arg in args[1:])
        if ours and program in (programs or [program]):
            found.append(int(entry.name))
    return found


def log_tail(layout: Layout, count: int = 12) -> list[str]:
    """The last lines the daemon wrote, warnings and errors first to be kept."""
    try:
        lines = layout.log.read_text(errors="replace").splitlines()
    except OSError:
        return []
    bad = [line for line in lines if "level=info" not in line and "level=debug" not in line]
    return [line[:300] for line in (bad or lines)[-count:]]


def _distribution() -> Distribution | None:
    try:
        return choose(Path("/etc/os-release").read_text())
    except OSError:
        return None


def _unpack(layout: Layout, say: Say) -> None:
    distribution, reason = _distribution(), why_not_here()
    if reason or distribution is None:
        raise MissingError(reason or "unknown distribution", hint=INSTALL_HINT)
    layout.folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(layout.folder).free
    if free < _SPACE_NEEDED:
        raise MissingError(
            f"a private engine needs {_SPACE_NEEDED >> 20} MiB; {layout.folder} has {free >> 20} MiB free",
            hint="free some space, or set KIT_HOME to a folder on a larger disk",
        )
    work, part = layout.folder / "download", layout.folder / "packages.part"
    for old in (work, part, layout.root):
        shutil.rmtree(old, ignore_errors=True)
    try:
        say(f"engine: fetching packages for {distribution.id} ({distribution.codename})")
        _download(distribution, work)
        say("engine: unpacking")
        part.mkdir()
        installed = apt.unpack(work / "debs", part)
        _link_firewall(part)
        part.rename(layout.root)
    finally:
        for left in (work, part):
            shutil.rmtree(left, ignore_errors=True)
    files.write(layout.config, json.dumps(layout.daemon_config(), indent=2) + "\n")
    plugins = str(layout.root / "usr" / "libexec" / "docker" / "cli-plugins")
    files.write(layout.cli_config / "config.json", json.dumps({"cliPluginsExtraDirs": [plugins]}) + "\n")
    _prove(layout)
    files.write(layout.state, json.dumps({"distribution": distribution.id, "packages": installed}, indent=2) + "\n")


def _download(distribution: Distribution, work: Path) -> None:
    host = apt.Apt(work / "apt")
    host.update()
    host.download(host.missing(distribution.from_host), work / "debs")
    if distribution.newer:
        newer = apt.newer_suite(work / f"apt-{distribution.newer}", distribution.newer, distribution.codename)
        newer.update()
        newer.download(distribution.from_newer, work / "debs")


def _link_firewall(root: Path) -> None:
    """The names that the iptables package's install script would make; the daemon calls them in containers' own
    network namespaces for the name service of user-made networks."""
    sbin = root / "usr" / "sbin"
    if (sbin / "xtables-nft-multi").exists():
        for name in ("iptables", "ip6tables", "iptables-save", "iptables-restore"):
            if not (sbin / name).exists():
                (sbin / name).symlink_to("xtables-nft-multi")


def _prove(layout: Layout) -> None:
    """Run each program once: a package that does not fit this machine shows here, not at the first container."""
    env = layout.daemon_env(os.environ.get("PATH", ""))
    docker = layout.root / "usr" / "bin" / "docker"
    for args in (["dockerd", "--version"], ["runc", "--version"], ["containerd", "--version"]):
        program = shutil.which(args[0], path=env["PATH"]) or args[0]
        proc.run([program, *args[1:]], env=env, hint=INSTALL_HINT)
    for plugin in ("buildx", "compose"):
        proc.run([docker, plugin, "version"], env=env | {"DOCKER_CONFIG": str(layout.cli_config)}, hint=INSTALL_HINT)


def _start(layout: Layout, say: Say) -> None:
    name = bridge.name_for(layout.home)
    if ping(layout.host) is None and pids(layout, "dockerd"):
        if not bridge.exists(name):  # another engine or a person took it away; containers cannot be connected
            raise MissingError(
                f"the private engine's network bridge {name} is gone",
                hint="kit engine stop && kit engine start   (this ends the containers that run in it)",
            )
        return
    if os.geteuid() != 0:
        raise MissingError("the private engine is not running, and only root can start it", hint="run this as root")
    began = time.monotonic()
    if not pids(layout, "dockerd"):
        _clear_stale(layout)
        bridge.ensure(name)
        (layout.run / "exec").mkdir(parents=True, exist_ok=True)
        (layout.run / "boot_id").write_text(_boot_id())
        files.write(layout.config, json.dumps(layout.daemon_config(), indent=2) + "\n")
        if layout.log.exists():
            layout.log.replace(layout.log.with_suffix(".log.1"))
        program = shutil.which("dockerd", path=layout.daemon_env(os.environ.get("PATH", ""))["PATH"]) or "dockerd"
        proc.daemon(
            [program, f"--config-file={layout.config}"],
            log=layout.log,
            env=layout.daemon_env(os.environ.get("PATH", "")),
        )
    while (reason := ping(layout.host)) is not None:
        waited = time.monotonic() - began
        gone = waited > 1 and not pids(layout, "dockerd")
        if gone or waited > _START_LIMIT_S:
            what = "ended while starting" if gone else f"does not answer after {waited:.0f} s ({reason})"
            raise MissingError(
                f"the private engine {what}", hint=f"less {layout.log}; kit engine stop", evidence=log_tail(layout)
            )
        time.sleep(0.1)
    say(f"engine: running after {time.monotonic() - began:.1f} s")


def _clear_stale(layout: Layout) -> None:
    """Clear what a daemon that is gone left: its pidfile (the number may be another's by now); all after a boot."""
    try:
        same_boot = (layout.run / "boot_id").read_text() == _boot_id()
    except OSError:
        same_boot = False
    if not same_boot:
        _unmount_below(layout.run)
        shutil.rmtree(layout.run, ignore_errors=True)
    # a new dockerd would wait ten seconds for the containerd of a killed one
    for pid in pids(layout, "containerd"):
        _kill(pid, signal.SIGKILL)
    _until_gone(lambda: pids(layout, "containerd"), 5.0)
    for stale in (layout.pidfile, layout.socket, layout.run / "exec" / "containerd" / "containerd.pid"):
        stale.unlink(missing_ok=True)


def _stop(layout: Layout, say: Say) -> bool:
    running = pids(layout)
    if not running:
        return False
    say("engine: stopping")
    for sig, wait in ((signal.SIGTERM, _STOP_LIMIT_S), (signal.SIGKILL, 5.0)):
        for pid in pids(layout, "dockerd"):
            _kill(pid, sig)
        if _until_gone(lambda: pids(layout, "dockerd"), wait):
            break
    # containerd ends with dockerd; one that a killed dockerd left, and its shims, do not
    _until_gone(lambda: pids(layout), 3.0)
    for pid in pids(layout):
        _kill(pid, signal.SIGKILL)
    _until_gone(lambda: pids(layout), 5.0)
    _unmount_below(layout.run)
    return True


def _prune_networks(layout: Layout) -> None:
    """Delete the running engine's containers and networks, whose bridges would outlive it."""
    docker, env = layout.root / "usr" / "bin" / "docker", {"DOCKER_HOST": layout.host, "DOCKER_CONTEXT": ""}
    containers = proc.run([docker, "ps", "--all", "--quiet"], env=env, check=False).out.split()
    if containers:
        proc.run([docker, "rm", "--force", *containers], env=env, check=False)
    proc.run([docker, "network", "prune", "--force"], env=env, check=False)


def _until_gone(living: Callable[[], list[int]], limit: float) -> bool:
    end = time.monotonic() + limit
    while living():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def _kill(pid: int, sig: int) -> None:
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        return
    except PermissionError:
        raise MissingError("only root can stop the private engine", hint="run this as root") from None


def _unmount_below(*folders: Path) -> None:
    """Unmount what the daemon left mounted below its own folders, innermost first."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    ours = [m for m in mounts if any(m.startswith(f"{folder}/") for folder in folders)]
    for mount in sorted(ours, reverse=True):
        proc.run(["umount", "--lazy", mount.encode().decode("unicode_escape")], check=False)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text()
