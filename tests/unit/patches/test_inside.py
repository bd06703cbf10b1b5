"""What happens in an image: apply, compile, prove, verify, and every way they stop."""

from __future__ import annotations

import importlib.util
import json
import os
import py_compile
import sys

import pytest

from kit.patches.inside.common import sha256
from tests.unit.patches.installed import GATE, GATE_PATCHED, PATH, Site, diff_of


def refused(site: Site, code: int, text: str, verb: str, *more: str) -> None:
    done = site.run(verb, *more)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ") and text in done.stderr, done.stderr


def test_the_whole_way(site: Site) -> None:
    site.good("apply", "compile", "prove", "verify")
    assert site.module.read_text() == GATE_PATCHED
    record = json.loads(site.record.read_text())
    assert record["vllm"] == "0.16.0+cpu"
    assert record["files"] == {PATH: sha256(GATE_PATCHED.encode())}
    assert list(record["bytecode"]) == [f"vllm/__pycache__/config.{sys.implementation.cache_tag}.pyc"]
    assert site.run("prove").stdout == f"gate: {PATH} is imported and runs its own bytecode\n"
    assert site.run("verify").stdout == "vLLM 0.16.0+cpu with 1 patches: as built\n"


def test_the_record_and_the_bytecode_are_the_same_every_time(site: Site) -> None:
    site.good("apply", "compile")
    first = site.record.read_bytes()
    os.utime(site.module, (1, 1))
    site.good("compile", "verify")
    assert site.record.read_bytes() == first


def test_no_patches_at_all(site: Site) -> None:
    site.write_series([])
    site.good("apply", "compile", "prove", "verify")
    (site.site / "vllm-0.16.0.dist-info" / "METADATA").write_text("Version: 0.17.0\n")
    refused(site, 6, "vLLM 0.17.0 is installed; the record", "verify")


def test_a_tampered_patch(site: Site) -> None:
    patch = site.root / "series" / "01-gate.patch"
    patch.write_text(patch.read_text().replace("kimi_k2", "kimi_k3"))
    refused(site, 6, "01-gate.patch was changed after the series was written", "apply")
    assert site.module.read_text() == GATE and not site.record.exists()


def test_a_tampered_patch_with_a_fresh_hash_still_makes_another_file(site: Site) -> None:
    site.series(diff=diff_of(GATE, GATE_PATCHED.replace("kimi_k2", "kimi_k3")))
    refused(site, 6, f"gate: {PATH} does not come out as recorded", "apply")
    assert site.module.read_text() == GATE


def test_a_patch_for_another_version(site: Site) -> None:
    site.series(vllm="0.17.0")
    refused(site, 2, "this series is for vLLM 0.17.0; 0.16.0+cpu is installed", "apply")


def test_a_patch_that_breaks_syntax(site: Site) -> None:
    site.series(new=GATE_PATCHED.replace('"kimi_k2",', '"kimi_k2'))
    refused(site, 3, f"gate breaks the syntax of {PATH}: ", "apply")
    assert site.module.read_text() == GATE


def test_a_patch_already_applied(site: Site) -> None:
    site.good("apply")
    refused(site, 3, f"gate is already applied to {PATH}", "apply")


def test_a_wheel_with_other_files(site: Site) -> None:
    site.module.write_text(GATE + "# rebuilt by somebody\n")
    done = site.run("apply")
    assert done.returncode == 6
    assert f"{PATH} is not the file this patch was made for" in done.stderr
    assert f"sha256 wanted: {sha256(GATE.encode())}" in done.stderr


def test_a_file_that_is_missing(site: Site) -> None:
    site.module.unlink()
    refused(site, 5, f"{PATH} is not in this vLLM", "apply")


def test_no_vllm_or_two(site: Site) -> None:
    (site.site / "vllm-0.17.0.dist-info").mkdir()
    (site.site / "vllm-0.17.0.dist-info" / "METADATA").write_text("Version: 0.17.0\n")
    refused(site, 5, "2 installed vLLM found", "apply")


def test_the_second_patch_fails_and_the_first_is_not_left_behind(site: Site) -> None:
    first = site.entry(diff_of(GATE, GATE_PATCHED), GATE_PATCHED)
    hashes = {PATH: {"before": sha256(GATE.encode()), "after": "0" * 64}}
    second = {**first, "id": "second", "file": "02-second.patch", "files": hashes}
    site.write_series([first, second])
    (site.root / "series" / "02-second.patch").write_text(diff_of(GATE, GATE_PATCHED))
    refused(site, 6, f"second: {PATH} is not the file this patch was made for", "apply")
    assert site.module.read_text() == GATE and not site.record.exists()


def test_stale_bytecode_is_found_before_the_engine_runs_it(site: Site) -> None:
    site.good("apply", "compile")
    site.module.write_text(GATE)
    stale = py_compile.compile(str(site.module), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    site.module.write_text(GATE_PATCHED)
    assert stale == importlib.util.cache_from_source(str(site.module))
    refused(site, 6, "is not the file that was built and proven", "verify")
    refused(site, 3, f"the bytecode of {PATH} is not that of its source: the patch is not in effect", "prove")


def test_a_source_changed_after_the_build(site: Site) -> None:
    site.good("apply", "compile")
    site.module.write_text(GATE_PATCHED + "\n")
    refused(site, 6, f"{PATH} is not the file that was built and proven", "verify")


def test_a_source_put_back_after_the_build(site: Site) -> None:
    site.good("apply", "compile")
    site.module.write_text(GATE)
    refused(site, 3, "gate is not live", "prove")


def test_bytecode_that_is_gone_or_was_never_made(site: Site) -> None:
    site.good("apply")
    refused(site, 6, "knows no bytecode: the build skipped its compile step", "verify")
    site.good("compile")
    next((site.site / "vllm" / "__pycache__").glob("config.*")).unlink()
    refused(site, 5, "cannot read", "verify")


def test_bytecode_looked_up_elsewhere(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.good("apply", "compile")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(site.root / "elsewhere"))
    refused(site, 6, "this Python would not run the recorded bytecode", "verify")


def test_a_file_of_the_site_that_does_not_compile(site: Site) -> None:
    site.good("apply")
    (site.site / "broken.py").write_text("def f(:\n")
    refused(site, 3, "broken.py does not compile", "compile")


def test_a_module_that_cannot_be_imported(site: Site) -> None:
    new = "import nowhere_to_be_found\n" + GATE_PATCHED
    site.series(new=new)
    site.good("apply", "compile")
    refused(site, 3, "vllm.config cannot be imported: ModuleNotFoundError", "prove")


def test_a_module_whose_gpu_library_is_absent_is_judged_by_its_bytecode(site: Site) -> None:
    site.series(new="raise ImportError('libcuda.so.1: cannot open shared object file')\n" + GATE_PATCHED)
    site.good("apply", "compile")
    assert "has its own bytecode (not importable on this machine" in site.run("prove").stdout


def test_a_name_that_importing_does_not_show(site: Site) -> None:
    site.series(live=["vllm.config:Config.absent"])
    site.good("apply", "compile")
    refused(site, 3, "gate: vllm.config:Config.absent is not there after importing", "prove")


def test_a_rehearsal_change_never_reaches_an_image_that_serves(site: Site) -> None:
    site.series(purpose="rehearsal")
    refused(site, 2, "gate is for rehearsals only and never goes into an image that serves", "apply")
    (site.site / "vllm" / "cumem_allocator.abi3.so").write_bytes(b"")
    refused(site, 2, "has a GPU build", "apply", "--rehearsal")
    (site.site / "vllm" / "cumem_allocator.abi3.so").unlink()
    assert site.run("apply", "--rehearsal").returncode == 0
    site.good("compile")
    refused(site, 2, "it must not serve", "verify")
    assert site.run("verify", "--rehearsal").returncode == 0


def test_an_image_for_rehearsals_says_so_in_its_environment(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.series(purpose="rehearsal")
    monkeypatch.setenv("KIT_REHEARSAL", "1")
    site.good("apply", "compile", "prove", "verify")
    monkeypatch.setenv("KIT_REHEARSAL", "0")
    refused(site, 2, "it must not serve", "verify")


def test_a_record_that_is_none(site: Site) -> None:
    refused(site, 5, "cannot read", "verify")
    site.record.write_text("{")
    refused(site, 6, "is not JSON", "verify")
    site.record.write_text("[]")
    refused(site, 6, "is not a kit.patches/1 file", "verify")
