"""A report with everything in it: a failed smoke test on eight cards, with hostile text in every place that comes
from outside."""

from __future__ import annotations

from benchmarks.replay.make_log import Start, make_log
from kit.gpu.findings import Finding
from kit.gpu.snapshot import Gpu, Memory, Pcie, Snapshot
from kit.report.collect import Contents, Quoted
from kit.report.inputs import DiagnosisIn, DoctorIn, ResourcesIn, SmokeIn, StagesIn
from kit.report.memory import Row
from kit.watch.feed import Feed
from kit.watch.history import as_document

HOSTILE = "</style></td><script>alert(1)</script><img src=x onerror=alert(2)> \" ' & \x1b[31m\x00\u202e {{ 7*7 }} ${x}"


def stages(kind: Start | None = None) -> StagesIn:
    feed = Feed()
    for at, text in make_log(kind or Start()):
        feed.bytes((text + "\n").encode(), at)
    now = feed.tracker.snapshot()
    ready = now.ready_at is not None
    return StagesIn.model_validate(as_document(now, now.ready_at or now.last_at, ready=ready))


def diagnosis(text: str) -> DiagnosisIn:
    return DiagnosisIn.model_validate(
        {
            "verdict": "failed",
            "root_cause": {
                "category": "model-files",
                "process": "worker",
                "rank": 3,
                "pid": 221,
                "exception": f"SafetensorError: {text}",
                "line": 96,
                "stage": "load",
                "rule": "weights-broken",
                "confidence": 0.9,
                "summary": f"A weight file is cut off. {text}",
                "remedy": [f"kit doctor --select model {text}", "fetch it again"],
            },
            "chain": [
                {"process": "worker", "line": 96, "exception": f"SafetensorError: {text}"},
                {"process": "engine_core", "line": 100, "exception": "Exception: WorkerProc initialization failed"},
            ],
            "evidence": [{"line": 96, "text": text}],
            "notes": [text],
        }
    )


def smoke() -> SmokeIn:
    gates = [
        {"name": "requests", "want": "16 answered", "found": "16 answered", "status": "pass"},
        {"name": "acceptance at position 1", "want": ">= 0.450", "found": "0.212", "status": "fail"},
        {"name": "mean acceptance length", "want": ">= 2.00", "found": "1.31", "status": "fail"},
    ]
    return SmokeIn.model_validate(
        {
            "verdict": "fail",
            "num_speculative_tokens": 5,
            "num_drafts": 94,
            "num_draft_tokens": 470,
            "num_accepted_tokens": 29,
            "acceptance_rate": 0.0617,
            "mean_acceptance_length": 1.31,
            "per_position": [0.212, 0.05, 0.02, 0.01, 0.01],
            "expected": {"num_drafts": 17, "num_draft_tokens": 85, "num_accepted_tokens": 85, "per_position": [17] * 5},
            "gates": gates,
            "requests": 16,
            "errors": 0,
            "ttft_s": 0.182,
            "tokens_per_s": 41.7,
        }
    )


def gpus(text: str) -> Snapshot:
    names = ["PIX", "NODE", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
    cards = tuple(
        Gpu(i, name=f"NVIDIA RTX PRO 6000 Blackwell Server Edition{text}", memory_mib=Memory(97887, 636, 97252, 0),
            pcie=Pcie(5, 5, 1, 16, 16), numa_node=i // 4)
        for i in range(8)
    )  # fmt: skip
    links = tuple(tuple("X" if a == b else names[(a ^ b)] for b in range(8)) for a in range(8))
    return Snapshot(driver="580.95.05", cuda_driver="13.0", gpus=cards, links=links)


def contents(text: str = "") -> Contents:
    samples = [
        ResourcesIn.model_validate(
            {
                "at": at,
                "gpus": [
                    {"index": i, "used_mib": min(73000, 40 * at), "total_mib": 97887, "busy": 3} for i in range(8)
                ],
                "read_bytes_per_s": 3.1e9 if 60 < at < 1800 else 0,
                "cpu": 8.2,
            }
        )
        for at in range(0, 2120, 10)
    ]
    doctor = {
        "verdict": "warn",
        "checks": [{"id": "gpu.acs", "status": "warn", "found": text or "redirected", "fix": "x"}],
    }
    return Contents(
        name=f"kimi-k2-5{text}",
        made="2026-03-02 09:00 UTC",
        kit="0.1.0",
        log=f"/srv/kimi/.kit/kimi-k2-5/runs/20260302T080000Z/container.log{text}",
        facts=(("engine", f"vLLM 0.16.0 on cuda{text}"), ("target", "/models/Kimi-K2.5")),
        stages=stages(),
        diagnosis=diagnosis(text or "incomplete metadata, file not fully covered"),
        quoted=(Quoted(95, f"    loaded = model.load_weights(weights) {text}", False), Quoted(96, f"x {text}", True)),
        smoke=smoke(),
        doctor=DoctorIn.model_validate(doctor),
        gpus=gpus(text),
        findings=(Finding("acs", "warn", f"ACS redirects {text}", "off", "setpci"),),
        memory=(Row("weights on each rank", "71.20 GiB", "71.43 GiB", 0.3), Row("KV", "15.1 GiB", "12.41 GiB", -17.8)),
        samples=tuple(samples),
        notes=(text or "a note",),
    )
