"""Packs what a GPU machine without network needs into parcels of at most 60 MB; README.md says how to use them.

python -m tests.gpu.pack [FOLDER]     FOLDER (default .gpu): parcels/ is the result, the rest can be deleted
python -m tests.gpu.pack --kit        only the kit's own files anew
python -m tests.gpu.pack --lock       write inputs/*.lock anew first
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from kit import files, proc
from kit.engine import apt
from kit.reference import DRAFTERS, FORMS, write
from kit.reference.faults import FAULTS, write_fault
from tests.gpu import inputs

ROOT = Path(__file__).resolve().parents[2]
PARCEL = 58_000_000  # bytes: 60 MB with room for what a transport adds
SOURCES = ["kit", "templates", "images", "tests/gpu", "kit.yaml", "pyproject.toml", "requirements.lock"]
ENGINE_PARTS = ["usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/docker", "usr/bin/docker-init"]
ENGINE_PARTS += ["usr/bin/tini-static", "usr/bin/runc", "usr/sbin/dockerd", "usr/sbin/docker-proxy", "usr/sbin/runc"]
ENGINE_PARTS += ["usr/lib/x86_64-linux-gnu"]
# Left out of vLLM: FlashAttention 2 (the machine's cards use 3 or Triton), the Rust front end, DeepGEMM for other
# Pythons, and sources for cards of another architecture; 170 MB of the 250.
VLLM_LEFT_OUT = ["vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", "vllm/vllm-rs", "vllm/third_party/fmha_sm100"]
VLLM_LEFT_OUT += [f"vllm/third_party/deep_gemm/_C.cpython-3{minor}-x86_64-linux-gnu.so" for minor in (10, 11, 13, 14)]
# Without a module of this name the inspection of models ends in an ImportError.
VLLM_EMPTY = "vllm/vllm_flash_attn/_vllm_fa2_C.py"
VLLM_COMMAND = '#!/bin/sh\nexec python3 -m vllm.entrypoints.cli.main "$@"\n'


def pack(folder: Path) -> Path:
    """Make FOLDER/parcels from the locked inputs; returns it."""
    bed, parcels, work = folder / "bed", folder / "parcels", folder / "work"
    for old in (bed, parcels):
        shutil.rmtree(old, ignore_errors=True)
        old.mkdir(parents=True)
    engine(bed / "home" / "engine" / "packages", work)
    site(bed / "site", work)
    models(bed / "deploy")
    print("compressing", file=sys.stderr)
    archive(bed, ["."], work / "bed.tar.xz", level="-1")
    for number, part in enumerate(cut(work / "bed.tar.xz", PARCEL), 1):
        files.write(parcels / f"parcel-{number:02d}", part)
    return pack_kit(folder)


def pack_kit(folder: Path) -> Path:
    """Put the kit itself with its wheels, run.sh and the sums into FOLDER/parcels; all that a change of it needs."""
    parcels, kit = folder / "parcels", folder / "kit"
    shutil.rmtree(kit, ignore_errors=True)
    for name in tracked():
        (kit / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, kit / name)
    inputs.fetch_wheels(ROOT / "requirements.lock", kit / "wheels")
    archive(kit, ["."], parcels / "kit.tar.xz", level="-1")
    shutil.copy(ROOT / "tests" / "gpu" / "run.sh", parcels)
    names = sorted(p.name for p in parcels.iterdir() if p.name != "SHA256SUMS")
    files.write(parcels / "SHA256SUMS", "".join(f"{files.sha256(parcels / n)}  {n}\n" for n in names))
    return parcels


def engine(root: Path, work: Path) -> None:
    """The private Docker engine, as `kit engine setup` would leave it, without what only builds need."""
    debs, whole = work / "debs", work / "engine"
    shutil.rmtree(debs, ignore_errors=True)
    shutil.rmtree(whole, ignore_errors=True)
    inputs.fetch_debs(inputs.DEBS_LOCK, work)
    whole.mkdir(parents=True)
    versions = apt.unpack(debs, whole)
    for part in ENGINE_PARTS:
        source, target = whole / part, root / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
    files.write(root.parent / "versions.json", json.dumps(versions, indent=1) + "\n")


def site(folder: Path, work: Path) -> None:
    """The wheels of vLLM and its dependencies, unpacked as they lie in site-packages, and a `vllm` command."""
    wheels = inputs.fetch_wheels(inputs.VLLM_LOCK, work / "wheels")
    for wheel in wheels:
        shutil.unpack_archive(wheel, folder, "zip")
    for data in folder.glob("*.data"):  # what a wheel wants beside its modules
        for part in (data / "purelib", data / "platlib"):
            if part.is_dir():
                shutil.copytree(part, folder, dirs_exist_ok=True)
        shutil.rmtree(data)
    for name in VLLM_LEFT_OUT:
        left_out = folder / name
        shutil.rmtree(left_out) if left_out.is_dir() else left_out.unlink()
    files.write(folder / VLLM_EMPTY, '"""Left out of the test bed."""\n')
    files.write(folder / "bin" / "vllm", VLLM_COMMAND, 0o755)


def models(folder: Path) -> None:
    """Every reference model, where the deployments in `folder` look for them, and the faulty drafters."""
    for form in FORMS:
        write(form, folder / ".kit" / "reference", vllm="0.25.1", drafters=DRAFTERS)
    for name in FAULTS:
        write_fault(name, folder / "faults")
    files.write(folder / "faults" / "empty", "")


def tracked() -> list[str]:
    """The kit's own files that travel."""
    listed = proc.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *SOURCES], cwd=ROOT)
    return [name for name in listed.out.splitlines() if (ROOT / name).is_file()]


def archive(root: Path, names: list[str], to: Path, *, level: str) -> None:
    """The same bytes for the same files: sorted, without times and owners."""
    fixed = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=go=u-w"]
    proc.run(["tar", *fixed, "-I", f"xz -T2 {level}", "-cf", to, *names], cwd=root)


def cut(path: Path, size: int) -> Iterator[bytes]:
    """A file's bytes in pieces of at most `size`."""
    with path.open("rb") as handle:
        while part := handle.read(size):
            yield part


def main(args: list[str]) -> None:
    folder = Path(next((a for a in args if not a.startswith("-")), ".gpu")).absolute()
    if "--lock" in args:
        (folder / "work").mkdir(parents=True, exist_ok=True)
        inputs.lock_wheels(folder / "work")
        inputs.lock_debs(folder / "work")
    parcels = pack_kit(folder) if "--kit" in args else pack(folder)
    for path in sorted(parcels.iterdir()):
        print(f"{path.stat().st_size:>10}  {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
