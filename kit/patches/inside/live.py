"""That patched code is the code that runs: compile it, prove it, verify it at every start."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from .common import (
    GATE,
    INTEGRITY,
    RECORD_SCHEMA,
    USAGE,
    Refused,
    installed_version,
    read_bytes,
    read_json,
    reader,
    sha256,
    write_json,
)
from .probe import judge

# Files of other packages written for a newer Python than 3.11; nothing imports them there.
NEVER_COMPILE = ("torch/testing/_internal/py312_intrinsics.py",)


def compile_tree(site: Path, root: Path, record: Path) -> int:
    """Delete all bytecode below `root` and compile it anew, independent of times; note it in the record.

    Returns the number of files compiled. Raises Refused for a file that does not compile, but for
    those known never to.
    """
    for cache in list(root.rglob("__pycache__")):
        shutil.rmtree(cache)
    command = [sys.executable, "-m", "compileall", "-q", "-f", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    done = subprocess.run(
        [*command, str(root)], env={**os.environ, "PYTHONHASHSEED": "0"}, stdout=subprocess.PIPE, text=True
    )
    sources = list(root.rglob("*.py"))
    failed = [str(path) for path in sources if not _bytecode(path).exists()]
    surprises = [path for path in failed if not path.endswith(NEVER_COMPILE)]
    if surprises:
        hint = "if no engine ever imports it, name it in NEVER_COMPILE (kit/patches/inside/live.py)"
        raise Refused(GATE, f"{surprises[0]} does not compile", done.stdout.splitlines()[-12:], hint)
    noted = read_json(record, RECORD_SCHEMA)
    noted["bytecode"] = {
        str(_bytecode(site / path).relative_to(site)): sha256(read_bytes(_bytecode(site / path)))
        for path in noted["files"]
    }
    write_json(record, noted)
    return len(sources) - len(failed)


def _bytecode(path: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(path)))


def prove(site: Path, record: Path) -> list[str]:
    """Import every patched module from `site` and run its patch's probe there; lines that say what was seen."""
    if str(site) not in sys.path:
        sys.path.insert(0, str(site))
    done = read_json(record, RECORD_SCHEMA)
    lines = []
    for patch in done["patches"]:
        finding = judge(reader(site), patch)
        if finding.state != "applied":
            raise Refused(GATE, f"{patch['id']} is not live in {site}: {finding.state}", [finding.why])
        for path in patch["files"]:
            how = prove_module(site, path)
            lines.append(f"{patch['id']}: {path} {how}")
        for live in patch.get("live", []):
            module, _, names = live.partition(":")
            found: Any = sys.modules.get(module)
            for name in names.split(".") if found else []:
                found = getattr(found, name, None)
            if found is None and module in sys.modules:
                raise Refused(GATE, f"{patch['id']}: {live} is not there after importing")
    return lines


def prove_module(site: Path, path: str) -> str:
    """How far `path` could be shown to be live: imported, and its loaded code is that of its source."""
    name = path[: -len(".py")].replace("/", ".").removesuffix(".__init__")
    file = site / path
    loaded = importlib.machinery.SourceFileLoader(name, str(file)).get_code(name)
    if loaded != compile(file.read_bytes(), str(file), "exec", dont_inherit=True):
        raise Refused(GATE, f"the bytecode of {path} is not that of its source: the patch is not in effect")
    try:
        module = importlib.import_module(name)
    except (ImportError, OSError, RuntimeError) as error:
        if re.search(r"lib\w+\.so|driver|GPU|CUDA", str(error)):
            return f"has its own bytecode (not importable on this machine: {error})"
        raise Refused(GATE, f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    except Exception as error:
        raise Refused(GATE, f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    if Path(str(module.__file__)).resolve() != file.resolve():
        raise Refused(GATE, f"{name} is imported from {module.__file__}, not from {file}")
    return "is imported and runs its own bytecode"


def verify(record: Path, rehearsal: bool = False) -> dict[str, Any]:
    """Check at container start that the engine will run what was recorded; raises Refused otherwise."""
    done = read_json(record, RECORD_SCHEMA)
    site = Path(done["site"])
    version = installed_version(site)
    if version != done["vllm"]:
        raise Refused(INTEGRITY, f"vLLM {version} is installed; the record {record} is for {done['vllm']}")
    apart = [patch["id"] for patch in done["patches"] if patch["purpose"] != "product"]
    if apart and not rehearsal:
        raise Refused(USAGE, f"this image has {apart[0]}, which is for rehearsals only: it must not serve")
    if done["files"] and not done["bytecode"]:
        raise Refused(INTEGRITY, f"{record} knows no bytecode: the build skipped its compile step")
    for path, want in {**done["files"], **(done["bytecode"] or {})}.items():
        found = sha256(read_bytes(site / path))
        if found != want:
            evidence = [f"sha256 wanted: {want}", f"sha256 found:  {found}"]
            raise Refused(INTEGRITY, f"{path} is not the file that was built and proven", evidence)
    for path in done["files"]:
        source, cache = site / path, _bytecode(site / path)
        if str(cache.relative_to(site) if cache.is_relative_to(site) else cache) not in done["bytecode"]:
            raise Refused(INTEGRITY, f"this Python would not run the recorded bytecode of {path}", [str(cache)])
        head = read_bytes(cache)[:16]
        if head[:4] != importlib.util.MAGIC_NUMBER or head[8:] != importlib.util.source_hash(source.read_bytes()):
            raise Refused(INTEGRITY, f"the bytecode of {path} was made from another source")
    return done
