"""What the parcels are made from: wheels and Debian packages, each named by version and SHA-256 in inputs/*.lock.

`fetch_*` gets exactly what a lock names, or fails; `lock_*` writes a lock anew from what the machine's own package
sources offer now.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from packaging.requirements import Requirement

from kit import files, proc
from kit.engine import apt
from kit.engine.distributions import choose
from kit.errors import IntegrityError, MissingError

HERE = Path(__file__).parent / "inputs"
VLLM_LOCK = HERE / "vllm.lock"
DEBS_LOCK = HERE / "debs.lock"
PYTHON = "3.12"
# pip matches a platform tag exactly: every glibc up to Ubuntu 24.04's, and the old names
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(39, 11, -1)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
SUITE = "trixie"
# A Docker engine that runs where the C library is 2.38 or newer, with two libraries that such a machine may lack.
DEBS = ["docker.io", "docker-cli", "containerd", "runc", "tini", "libseccomp2", "libsystemd0"]


def fetch_wheels(lock: Path, folder: Path) -> list[Path]:
    """Download the wheels of a hash-locked list, for the GPU machine's Python, and return their paths."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    chosen = folder / "requirements.txt"
    chosen.write_text(for_target(lock.read_text()))
    _pip("download", "-d", folder, "--require-hashes", "-r", chosen)
    chosen.unlink()
    return sorted(folder.glob("*.whl"))


def for_target(lock: str) -> str:
    """The entries of a requirements file that hold for the GPU machine's Python, without their markers.

    pip would judge a marker by the Python that runs it here.
    """
    target = {"python_version": PYTHON, "python_full_version": f"{PYTHON}.3"}
    kept = []
    for entry in re.findall(r"(?m)^[A-Za-z0-9].*(?:(?<=\\)\n.*)*", lock):
        first, *hashes = [line.strip().rstrip("\\").strip() for line in entry.split("\n")]
        text, _, inline = first.partition(" --hash=")
        requirement = Requirement(text.strip())
        if requirement.marker is None or requirement.marker.evaluate(target):
            sums = [f"--hash={inline}"] if inline else hashes
            kept.append(" ".join([f"{requirement.name}{requirement.specifier}", *sums]))
    return "\n".join(kept) + "\n"


def fetch_debs(lock: Path, folder: Path) -> list[Path]:
    """Download the Debian packages of a lock and check each. Raises IntegrityError."""
    locked = json.loads(lock.read_text())
    wanted = locked["packages"]
    _apt(folder, locked["suite"]).download([f"{name}={p['version']}" for name, p in wanted.items()], folder / "debs")
    found = {}
    for deb in sorted((folder / "debs").glob("*.deb")):
        name = deb.name.split("_")[0]
        if name in wanted and files.sha256(deb) == wanted[name]["sha256"]:
            found[name] = deb
    if set(found) != set(wanted):
        raise IntegrityError(
            "Debian packages are not the locked ones",
            evidence=sorted(set(wanted) - set(found)),
            hint="python -m tests.gpu.pack --lock, and read what changed",
        )
    return list(found.values())


def lock_wheels(work: Path) -> None:
    """Write inputs/vllm.lock: what vllm.in needs under overrides.txt, without what provided.txt lists."""
    provided = [line for line in (HERE / "provided.txt").read_text().split("\n") if line and not line.startswith("#")]
    pins = work / "pins.txt"
    resolve = ["-m", "uv", "pip", "compile", "-q", "--no-header", "--no-annotate", "--python-version", PYTHON]
    resolve += ["--python-platform", "x86_64-manylinux_2_31", "--override", str(HERE / "overrides.txt")]
    leave_out = [word for name in provided for word in ("--no-emit-package", name)]
    proc.run([sys.executable, *resolve, *leave_out, HERE / "vllm.in", "-o", pins])
    names = re.findall(r"(?m)^([a-z0-9-]+)==", pins.read_text())
    wheels = work / "new-wheels"
    _pip("download", "-d", wheels, "-r", pins)
    by_name = {re.sub(r"[-_.]+", "-", w.name.split("-")[0]).lower(): w for w in wheels.glob("*.whl")}
    rows = [f"{name}=={by_name[name].name.split('-')[1]} --hash=sha256:{files.sha256(by_name[name])}" for name in names]
    files.write(VLLM_LOCK, "\n".join(rows) + "\n")


def lock_debs(work: Path) -> None:
    """Write inputs/debs.lock from the newest packages of SUITE."""
    source = _apt(work, SUITE)
    source.download(DEBS, work / "new-debs")
    packages = {}
    for deb in sorted((work / "new-debs").glob("*.deb")):
        fields = dict(
            line.split(": ", 1) for line in proc.run(["dpkg-deb", "-f", deb, "Package", "Version"]).out.splitlines()
        )
        packages[fields["Package"]] = {"version": fields["Version"], "sha256": files.sha256(deb)}
    files.write(DEBS_LOCK, json.dumps({"suite": SUITE, "packages": packages}, indent=1) + "\n")


def _apt(work: Path, suite: str) -> apt.Apt:
    here = choose(Path("/etc/os-release").read_text())
    if here is None or not here.id.startswith("debian"):
        raise MissingError("the engine's packages are taken from Debian's archive", hint="pack on Debian 12 or later")
    found = apt.newer_suite(work / "apt", suite, here.codename)
    found.update()
    return found


def _pip(verb: str, *args: str | Path) -> None:
    platforms = [word for tag in PLATFORMS for word in ("--platform", tag)]
    fixed = ["--no-deps", "--only-binary", ":all:", "--implementation", "cp", "--python-version", PYTHON, *platforms]
    proc.run([sys.executable, "-m", "pip", verb, "-q", "--disable-pip-version-check", *fixed, *args])
