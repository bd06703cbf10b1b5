"""Patches of an image's vLLM: applied, compiled, proven live, and verified at every start.

apply    the series in a folder (series.json and its patches), all of it or nothing
compile  bytecode that belongs to exactly these sources, whatever their times are
prove    import what was patched; its probe must find the patch, its bytecode must be the source's
verify   at container start: files and bytecode are still the ones that were recorded
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

if not __package__:  # run as a folder: make it importable as the package that it is
    __package__ = Path(__file__).resolve().parent.name
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    __import__(__package__)

from .apply import apply
from .common import Refused
from .live import compile_tree, prove, verify

RECORD = "/opt/kit/patches.json"


def main(argv: list[str] | None = None) -> Iterator[str]:
    """Do what the command line asks; yields lines for people. Raises Refused."""
    parser = argparse.ArgumentParser(prog="patches", description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("apply", "compile", "prove", "verify"):
        options = verbs.add_parser(verb)
        options.add_argument("--record", type=Path, default=Path(RECORD), help=f"default: {RECORD}")
        if verb != "verify":
            options.add_argument("--site", type=Path, required=True, help="the site-packages that hold vLLM")
        if verb in ("apply", "verify"):
            options.add_argument("--rehearsal", action="store_true", help="allow patches for rehearsals only")
        if verb == "apply":
            options.add_argument("--series", type=Path, required=True, help="folder with series.json and patches")
        if verb == "compile":
            options.add_argument("--root", type=Path, help="compile everything below this; default: the site")
    args = parser.parse_args(argv)
    # an image for rehearsals says so in its environment, once for its build and all its starts
    rehearsal = getattr(args, "rehearsal", False) or os.environ.get("KIT_REHEARSAL") == "1"
    if args.verb == "apply":
        done = apply(args.site, args.series, args.record, rehearsal)
        yield f"vLLM {done['vllm']}: {len(done['patches'])} patches applied to {len(done['files'])} files"
    elif args.verb == "compile":
        yield f"{compile_tree(args.site, args.root or args.site, args.record)} files compiled"
    elif args.verb == "prove":
        yield from prove(args.site, args.record)
    else:
        done = verify(args.record, rehearsal)
        yield f"vLLM {done['vllm']} with {len(done['patches'])} patches: as built"


if __name__ == "__main__":
    sys.path.pop(0)  # this folder's neighbours must not answer imports of the modules that are proven
    try:
        for said in main():
            print(said)
    except Refused as refused:
        print(f"error: {refused.message}", *("  " + line for line in refused.evidence), sep="\n", file=sys.stderr)
        if refused.hint:
            print(f"next:  {refused.hint}", file=sys.stderr)
        sys.exit(refused.code)
