"""Which GPUs the compiled modules of an image have code for: read from the fat binaries inside them.

nvcc puts a module's device code into one section of the shared library, as containers of entries; each entry is machine
code (a cubin) or PTX for one architecture. The layout is not published by NVIDIA; the offsets here were read off the
wheels of vLLM 0.16.0 and 0.33.0, where they give what `cuobjdump --list-elf --list-ptx` gives.
"""

from __future__ import annotations

import json
import mmap
import re
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from kit.errors import IntegrityError
from kit.parse import json_of

SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")
# Which modules of which distribution decide whether an engine runs on a card.
MODULES = {"vllm": re.compile(r"\.so$"), "torch": re.compile(r"/libtorch_cuda[^/]*\.so$")}
# Without these vLLM does nothing at all; the others (attention for certain cards) have substitutes.
CORE = re.compile(r"^(_C|_moe_C|libtorch_cuda)")

_ELF, _MAGIC = b"\x7fELF\x02\x01", 0xBA55ED50
_NO_BITS = 8
_PTX, _CUBIN = 1, 2
_FAMILY, _EXACT = 0x200000, 0x100000
_TARGET = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")

Support = Literal["native", "jit", "none"]


@dataclass(frozen=True, order=True)
class Code:
    """Device code for one architecture: `sm` is machine code, `compute` PTX, which the driver compiles at first use.

    `variant` a: runs on exactly this architecture; f: on it and later ones of its family; empty: machine code on later
    minors of the same major, PTX on everything later (CUDA's programming guide, compute capabilities).
    """

    kind: Literal["sm", "compute"]
    major: int
    minor: int
    variant: Literal["", "a", "f"] = ""

    def __str__(self) -> str:
        return f"{self.kind}_{self.major}{self.minor}{self.variant}"

    @classmethod
    def parse(cls, text: str) -> Code:
        """`sm_120a` as a Code. Raises ValueError."""
        found = _TARGET.fullmatch(text)
        if not found:
            raise ValueError(f"{text[:40]!r} is not an architecture")
        kind, major, minor, variant = found.groups()
        return cls(kind, int(major), int(minor), variant)  # type: ignore[arg-type]

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether a card of this compute capability takes it."""
        mine = (self.major, self.minor)
        if self.variant == "a":
            return mine == capability
        if self.variant == "f" or self.kind == "sm":
            return self.major == capability[0] and mine <= capability
        return mine <= capability


def support(codes: Iterable[Code], capability: tuple[int, int]) -> Support:
    """How a module with `codes` runs on a card: at once, after the driver compiled it (minutes, once), or not."""
    fitting = {code.kind for code in codes if code.runs_on(capability)}
    return "native" if "sm" in fitting else "jit" if fitting else "none"


def of_library(path: Path) -> frozenset[Code]:
    """The device code in one shared library; empty where it has none. Raises ValueError for what is not one."""
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return frozenset(code for start, end in _sections(data) for code in _entries(data, start, end))
        except struct.error:
            raise ValueError(f"{path.name}: the file ends before what its headers promise") from None


def of_wheel(wheel: Path, wanted: re.Pattern[str], scratch: Path) -> dict[str, frozenset[Code]]:
    """Device code by module name for the shared libraries of a wheel whose path matches; those without are left out.

    Each is unpacked below `scratch` while it is read. Raises IntegrityError for a wheel that cannot be read.
    """
    found = {}
    try:
        with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory(dir=scratch) as folder:
            for info in archive.infolist():
                if not wanted.search(info.filename):
                    continue
                library = Path(folder) / "library"
                with archive.open(info) as source, library.open("wb") as to:
                    shutil.copyfileobj(source, to, 1 << 20)
                if codes := of_library(library):
                    found[_module(info.filename)] = codes
    except (zipfile.BadZipFile, ValueError) as error:
        raise IntegrityError(f"{wheel.name}: its compiled modules cannot be read: {error}") from None
    return found


def of_wheels(wheels: Iterable[tuple[str, Path]]) -> dict[str, frozenset[Code]]:
    """Device code by module name of all wheels (file name, path) that MODULES names; unpacks beside them.

    Raises IntegrityError where vLLM has none at all: it is not a build for GPUs.
    """
    found: dict[str, frozenset[Code]] = {}
    for name, path in wheels:
        if wanted := MODULES.get(name.partition("-")[0]):
            found |= of_wheel(path, wanted, path.parent.parent)
    if not any(module.startswith("_C") for module in found):
        raise IntegrityError(
            "vLLM's wheel holds no code for any GPU", hint="engine.device: cpu in kit.yaml, or another wheel, kit lock"
        )
    return found


def to_label(modules: Mapping[str, Iterable[Code]]) -> str:
    """Device code by module as the text of an image's label."""
    listed = {name: [str(code) for code in sorted(codes)] for name, codes in sorted(modules.items())}
    return json.dumps(listed, separators=(",", ":"))


def from_label(text: str) -> dict[str, frozenset[Code]]:
    """The reverse of `to_label`. Raises ValueError for other text."""
    listed = json_of(text)
    if not isinstance(listed, dict) or not all(isinstance(codes, list) for codes in listed.values()):
        raise ValueError("not a map of modules")
    return {name: frozenset(Code.parse(str(code)) for code in codes) for name, codes in listed.items()}


def _module(path: str) -> str:
    """`vllm/_C.abi3.so` -> `_C`."""
    return PurePosixPath(path).name.partition(".")[0]


def _sections(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Start and end of each section with device code in an ELF file of 64 bits, little-endian."""
    if data[:6] != _ELF:
        raise ValueError("not a shared library for this processor")
    (headers,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    table = [struct.unpack_from("<IIQQQQ", data, headers + index * size) for index in range(count)]
    for name, kind, _, _, start, length in table:
        at = table[names][4] + name
        if kind != _NO_BITS and data[at : data.find(b"\0", at)] in SECTIONS:
            if start + length > len(data):
                raise ValueError("a section reaches beyond the end of the file")
            yield start, start + length


def _entries(data: mmap.mmap, at: int, end: int) -> Iterator[Code]:
    """The entries of all containers between two offsets; containers are aligned to 8 bytes."""
    while at + 16 <= end:
        magic, _, header, size = struct.unpack_from("<IHHQ", data, at)
        if magic != _MAGIC:
            at += 8
            continue
        entry, at = at + header, at + header + size
        if at > end:
            raise ValueError("a container of device code is cut short")
        while entry < at:
            kind, _, header, size = struct.unpack_from("<HHIQ", data, entry)
            (arch,) = struct.unpack_from("<I", data, entry + 28)
            (flags,) = struct.unpack_from("<Q", data, entry + 40)
            if kind in (_PTX, _CUBIN):
                variant: Literal["", "a", "f"] = "f" if flags & _FAMILY else "a" if flags & _EXACT else ""
                yield Code("sm" if kind == _CUBIN else "compute", arch // 10, arch % 10, variant)
            if header + size == 0:
                raise ValueError("an entry of device code has no size")
            entry += header + size
