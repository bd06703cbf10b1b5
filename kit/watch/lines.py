"""What the views say: the same words for the live screen and for plain lines; pure."""

from __future__ import annotations

from kit.watch.model import Process, Snapshot
from kit.watch.patterns import patterns
from kit.watch.resources import Sample, Usage
from kit.watch.session import Frame
from kit.watch.words import duration, gib, rate

RANKED = ("processes", "nccl", "load")  # stages whose beginning every rank prints
FIGURES = {
    "version": "vLLM {}",
    "architecture": "architecture {}",
    "nccl": "NCCL {}",
    "checkpoint_gib": "{:.1f} GiB on disk",
    "weights_s": "weights read in {:.0f} s",
    "drafter_weights_s": "drafter read in {:.1f} s",
    "model_gib": "model takes {:.2f} GiB on each card",
    "compile_s": "compiled in {:.0f} s",
    "kv_gib": "KV cache of {:.2f} GiB on each rank",
    "kv_tokens": "KV cache of {:,.0f} tokens",
    "concurrency": "{:.2f} full-length requests at once",
    "graphs_gib": "graphs take {:.2f} GiB",
}


def title(stage: str) -> str:
    """A stage as people name it."""
    return patterns().stages[stage].title


def figure(name: str, value: float | str) -> str | None:
    """A figure in words, or None when it is of no interest while waiting."""
    shape = FIGURES.get(name)
    try:
        return shape.format(value) if shape else None
    except ValueError:
        return None


def progress(now: Snapshot, frame: Frame, *, going: bool = True) -> str:
    """The bar in words: "26 of 64 shards, 17:46 min to go, 28.1 s each"; empty without a bar; only what is done when it
    does not go on (`going`)."""
    bar = now.bar
    if bar is None:
        return ""
    items = "shards" if "shards" in bar.label else "graphs" if "graph" in bar.label else "items"
    text = f"{bar.done} of {bar.total} {items}"
    if not going:
        return text
    left = frame.estimate.stage_left_s
    if left is not None and bar.done < bar.total:
        text += f", {duration(left)} to go"
    if bar.per_s and bar.done < bar.total:
        text += f", {1 / bar.per_s:.1f} s each" if bar.per_s < 1 else f", {bar.per_s:.1f} a second"
    return text


def outlook(frame: Frame) -> str:
    """When it will be ready, as far as anything says so."""
    known = frame.estimate
    if known.overdue:
        return f"{title(frame.snapshot.stage)} lasts longer than ever before here"
    if known.ready_left_s is not None:
        return f"ready in about {duration(known.ready_left_s)} ({known.basis})"
    return ""


def resources(sample: Sample | None, used: Usage | None) -> str:
    """GPU memory and use, disk, CPU on one line; empty when nothing can be seen."""
    parts = []
    if sample and sample.gpus:
        full = sum(g.total_mib for g in sample.gpus)
        busy = [g.busy for g in sample.gpus if g.busy is not None]
        use = f", use {min(busy)} to {max(busy)} %" if busy else ""
        parts.append(f"GPU {gib(sum(g.used_mib for g in sample.gpus))} of {gib(full)}{use}")
    if used and used.read_rate is not None:
        whose = " (whole machine)" if sample and sample.whole_machine else ""
        parts.append(f"disk {rate(used.read_rate)}{whose}")
    if used and used.cpu_rate is not None:
        parts.append(f"CPU {used.cpu_rate:.1f} cores")
    return "   ".join(parts)


def ranks(now: Snapshot) -> list[str]:
    """Which worker is in which stage, as lines like "ranks 0, 2-7: weights"; empty with fewer than two workers, and
    once only rank 0 says how it goes on."""
    workers = sorted((p for p in now.processes if p.role == "worker"), key=_rank)
    if len(workers) < 2 or now.stage not in RANKED:
        return []
    by_stage: dict[str, list[Process]] = {}
    for process in workers:
        by_stage.setdefault(process.stage, []).append(process)
    order = {name: stage.order for name, stage in patterns().stages.items()}
    return [
        f"{_numbers(group)}: {title(stage)}"
        for stage, group in sorted(by_stage.items(), key=lambda item: -order[item[0]])
    ]


def _rank(process: Process) -> int:
    return process.rank if process.rank is not None else 1 << 30


def _numbers(group: list[Process]) -> str:
    """ "ranks 0, 2-7" of sorted processes."""
    numbers = [p.rank for p in group if p.rank is not None]
    unknown = [f"pid {p.pid}" for p in group if p.rank is None]
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs] + unknown
    return ("ranks " if len(numbers) > 1 else "rank " if numbers else "") + ", ".join(parts)
