"""Which instruction sets really run here, each tried in a process of its own: announced is not usable.

Some hypervisors announce AMX and answer its instructions with an illegal-instruction fault; an engine that trusts the
announcement then dies at its first request. Run as `python -m kit.host.instructions NAME...`: prints a JSON object,
null for a set that runs, else the signal that ended the attempt.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from kit import proc
from kit.parse import json_of

TRY_LIMIT_S = 20.0
_RETURN = "c5f877 c3"  # vzeroupper; ret
# The flag in /proc/cpuinfo, and machine code that uses one instruction of it on zeroed registers or tiles.
CODE = {
    "avx2": f"c5fdfec0 {_RETURN}",  # vpaddd ymm0, ymm0, ymm0
    "avx512f": f"62f17d48fec0 {_RETURN}",  # vpaddd zmm0, zmm0, zmm0
    "avx512_vnni": f"62f27d4850c0 {_RETURN}",  # vpdpbusd zmm0, zmm0, zmm0
    "avx512_bf16": f"62f27e4852c0 {_RETURN}",  # vdpbf16ps zmm0, zmm0, zmm0
    # ldtilecfg [rdi]; tilezero tmm0, tmm1, tmm2; tdpbf16ps tmm0, tmm1, tmm2; tilerelease; ret
    "amx_bf16": "c4e2784907 c4e27b49c0 c4e27b49c8 c4e27b49d0 c4e26a5cc1 c4e27849c0 c3",
}
# Palette 1, three tiles of 16 rows by 64 bytes, as Intel's manual lays out the 64 bytes of a tile configuration.
TILE_CONFIG = bytes([1] + [0] * 15 + [64, 0] * 3 + [0] * 26 + [16] * 3 + [0] * 13)
ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA = 158, 0x1023, 18  # Linux, x86-64


def usable(flags: Sequence[str]) -> dict[str, str | None]:
    """For each known set among the announced `flags`: None when it runs, else why it does not.

    An empty result on a machine that is not x86-64. Raises nothing: when the trial itself fails, that is the why.
    """
    names = [name for name in CODE if name in flags]
    if not names or os.uname().machine != "x86_64":
        return {}
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    try:
        done = proc.run(
            [sys.executable, "-P", "-m", "kit.host.instructions", *names], timeout=TRY_LIMIT_S, env={"PYTHONPATH": path}
        )
        return {name: why for name, why in json_of(done.out).items() if name in names}
    except (proc.ProcessFailed, ValueError) as error:
        return dict.fromkeys(names, f"could not be tried: {error}")


def attempt(name: str) -> str | None:
    """Run one set's code in a forked child; None when it came back, else how it ended."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGILL, signal.SIG_DFL)  # die of it, quietly
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os._exit(_execute(name))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return None if os.WEXITSTATUS(status) == 0 else "the kernel refused the permission to use tiles"


def _execute(name: str) -> int:
    libc = ctypes.CDLL(None)
    if name.startswith("amx") and libc.syscall(ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) != 0:
        return 1
    code = bytes.fromhex(CODE[name])
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(None, ctypes.c_char_p)(address)(TILE_CONFIG)
    return 0


if __name__ == "__main__":
    print(json.dumps({name: attempt(name) for name in sys.argv[1:]}))
