"""A start as a live screen in a terminal: stages done and to come, progress, ranks, resources, worries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.text import Text

from kit.cli.out import clean
from kit.watch import lines
from kit.watch.estimate import durations
from kit.watch.model import Change
from kit.watch.patterns import patterns
from kit.watch.session import Frame
from kit.watch.words import duration

EVERY_S = 2.0
BAR = 8
_HIDDEN = ("serving", "shutdown")
# stages that a start may well not have are shown only once they came
_OPTIONAL = ("nccl", "draft-load", "profile", "compile", "warmup", "capture")


class Live:
    """Redraws every two seconds and at each change of stage."""

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._drawn = -EVERY_S
        self._stage = ""
        self._last: Frame | None = None
        self._live = RichLive(console=console, auto_refresh=False, transient=False, redirect_stdout=False)
        self._live.start()

    def changes(self, changes: Sequence[Change], frame: Frame) -> None:
        if frame.at - self._drawn < EVERY_S and frame.snapshot.stage == self._stage:
            return
        self._drawn, self._stage, self._last = frame.at, frame.snapshot.stage, frame
        self._live.update(screen(self._title, frame), refresh=True)

    def close(self, good: bool) -> None:
        if not good and self._last is not None:
            self._live.update(screen(self._title, self._last, failed=True), refresh=True)
        self._live.stop()


def screen(title: str, frame: Frame, failed: bool = False) -> RenderableType:
    """The whole screen for one moment; `failed`: the last one of a start that did not get ready."""
    now = frame.snapshot
    head = Text(f"{title}  {duration(frame.at)}", style="bold", no_wrap=True, overflow="ellipsis")
    head.append("   failed" if failed else f"   {lines.outlook(frame)}", style="red" if failed else "not bold cyan")
    parts: list[RenderableType] = [head, *_stages(frame, failed)]
    for text in lines.ranks(now):
        parts.append(Text(f"  {text}", style="dim"))
    used = lines.resources(frame.sample, frame.usage)
    if used:
        parts.append(Text(f"  {used}", style="dim"))
    if now.last_text:
        parts.append(Text(f"  > {clean(now.last_text.strip())}", style="dim", no_wrap=True, overflow="ellipsis"))
    for missing in frame.missing:
        parts.append(Text(f"  {missing.name} is gone", style="bold red"))
    if frame.judgement.text:
        style = "yellow" if frame.judgement.verdict == "slow" else "bold yellow"
        parts.append(Text(f"  {frame.judgement.text}", style=style))
    return Group(*parts)


def _stages(frame: Frame, failed: bool) -> Iterator[Text]:
    """A line for each stage; laid out by hand, because a rich table costs ten times as much each second."""
    now = frame.snapshot
    spent = durations(now.spans, frame.at)
    seen = {span.stage for span in now.spans}
    shown = []
    for name, stage in patterns().stages.items():
        if name in _HIDDEN or (
            name not in seen and (name in _OPTIONAL or stage.order < patterns().stages[now.stage].order)
        ):
            continue
        shown.append((name, stage.title, duration(spent[name]) if name in seen else ""))
    wide = max((len(title) for _, title, _ in shown), default=0)
    long = max((len(took) for _, _, took in shown), default=0)
    for name, title, took in shown:
        current = name == now.stage
        mark, style = ("✓", "green") if name in seen else ("·", "dim")
        if current:
            mark, style = ("✕", "bold red") if failed else ("▶", "bold")
        row = Text(f" {mark} {title:<{wide}}", style=style, no_wrap=True, overflow="ellipsis")
        row.append(f"  {took:>{long}}", style="not bold default")
        row.append("  " + _detail(name, current, frame, failed), style="not bold cyan" if current else "not bold dim")
        yield row


_OF_STAGE = {
    "config": ("architecture",),
    "nccl": ("nccl",),
    "load": ("checkpoint_gib", "weights_s"),
    "draft-load": ("drafter_weights_s",),
    "profile": ("model_gib",),
    "kv-cache": ("kv_tokens", "concurrency"),
    "capture": ("graphs_gib",),
}


def _detail(stage: str, current: bool, frame: Frame, failed: bool) -> str:
    now = frame.snapshot
    if current and now.bar is not None:
        full = round(BAR * now.bar.done / max(1, now.bar.total))
        return "█" * full + "░" * (BAR - full) + " " + lines.progress(now, frame, going=not failed)
    told = [lines.figure(name, now.figures[name]) for name in _OF_STAGE.get(stage, ()) if name in now.figures]
    left = frame.estimate.stage_left_s
    if current and left and not failed:
        told.append(f"about {duration(left)} to go")
    return clean(", ".join(text for text in told if text))
