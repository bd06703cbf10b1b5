"""Reads a log once, line by line, into runs: what each process did, and everything that went wrong.

Holds a bounded amount for a log of any length. No judgement here: `causes` judges.
"""

from __future__ import annotations

from dataclasses import replace

from kit.logs import frames, signals
from kit.logs.model import Failure, Line, Owner, Trace
from kit.logs.prefixes import Names
from kit.logs.run import Run
from kit.logs.tracebacks import Builder, begins

_NONE = Owner("none")
_MOST_RUNS = 256
_STREAMS = 256
_NEAR = 200
_ENDS = 3000


class Reader:
    """Takes lines (`feed`), keeps runs. `finish` closes what is open."""

    def __init__(self) -> None:
        self.names = Names()
        self.runs: list[Run] = []
        self.run_count = 0
        self.lines = 0
        self._streams: dict[object, Builder] = {}
        self._bare = Builder(_NONE)
        self._racing: Owner | None = None
        self._active = 0
        self._last = Line(0, "")
        self._raw, self._awake = "", False
        self._natives: dict[str, int] = {}
        self._new_run(1)

    @property
    def run(self) -> Run:
        return self.runs[-1]

    def feed(self, number: int, raw: str) -> None:
        """Take one line, numbered from 1, without its newline."""
        self.lines = number
        if not self._active and ((raw == self._raw and not self._awake) or self._routine(number, raw)):
            self.run.last_line = number
            return
        self._raw = raw
        for line in self.names.read(number, raw):
            self._take(number, line)

    def _routine(self, number: int, raw: str) -> bool:
        """Whether the line is one of the two that a serving server prints all day; such a line is only counted."""
        run = self.run
        if raw.endswith(" 200 OK"):
            if run.stopping is None and '"POST /v1/' in raw:
                run.served, run.hang_first, run.hang_count, run.stage = number, None, 0, "serving"
        elif not (raw.endswith("%") and "Avg prompt throughput" in raw):
            return False
        elif "generation throughput: 0.0 " not in raw:
            run.hang_first, run.hang_count = None, 0
        run.alive = run.alive or number
        return True

    def _take(self, number: int, line: Line) -> None:
        awake = self._awake = line.level in ("WARNING", "ERROR", "CRITICAL") or signals.wakes(line.text)
        if awake:
            self._boundary(line)
        run = self.run
        run.last_line = number
        if line.text.strip():
            run.last_lines.append(line)
        if line.owner is not None:
            run.roles[line.owner.role] = line
        if not self._traceback(line):
            if awake:
                self._signal(line)
            else:
                self._work(line, run)
        if line.race is not None:
            self._racing = line.race
        elif line.owner is not None:
            self._racing = None
        self._last = line

    def gap(self) -> None:
        """Say that lines were skipped here: no traceback goes across."""
        self._close()
        self.run.gap, self.run.alive = True, None

    def finish(self) -> None:
        """The log ends."""
        self._close()

    # -- runs ---------------------------------------------------------------------------------------------------

    def _new_run(self, line: int) -> None:
        self._close()
        if self.runs:
            self.run.shrink()
        self.run_count += 1
        self.runs.append(Run(self.run_count, line))
        del self.runs[:-_MOST_RUNS]
        self._natives = {}

    def _boundary(self, line: Line) -> None:
        run, text = self.run, line.text
        if signals.IMPORTS.search(text):
            if run.over:
                self._new_run(line.number)
            return
        if (
            run.stopped
            and begins(line)
            and line.owner is None
            and line.level is None
            and not signals.harmless_intro(self._last.text)
        ):
            self._new_run(line.number)
            return
        match = signals.START.search(text)
        if not match and not signals.ARGUMENTS.search(text):
            return
        usage, engine = text.startswith("usage: "), bool(match and match["engine"])
        version = (match["old"] or match["new"]) if match else None
        one_of_many = line.owner is not None and line.owner.rank is not None  # several API servers print it each
        again = run.has_banner and (
            run.engine_up or any(f.fatal for f in run.failures) or bool(version and run.versions and not one_of_many)
        )
        if run.over or (again and not usage and not engine):
            self._new_run(line.number)
            run = self.run
        if match:
            run.version = run.version or match["old"] or match["new"] or match["engine"]
        if not usage and not engine:
            run.banner_line = run.banner_line or line.number
            run.versions += bool(version)
            run.has_banner, run.banner_pid = True, line.owner.pid if line.owner else None
        if signals.ARGUMENTS.search(text):
            run.arguments = text[:4000]
        if engine:
            run.engine_up = True

    # -- tracebacks ---------------------------------------------------------------------------------------------

    def _builder(self, line: Line) -> Builder:
        owner = line.owner
        if owner is None or (line.level and line.where is None and begins(line)):  # uvicorn marks only the first line
            if self._racing is not None:
                owner = self._racing
            else:
                return self._bare
        key = (owner.role, owner.pid) if owner.pid is not None else (owner.role, owner.rank, "header")
        builder = self._streams.get(key)
        if builder is None:
            if len(self._streams) >= _STREAMS:
                self._close()
                self._streams.clear()
            builder = self._streams[key] = Builder(owner)
        elif owner.rank is not None and builder.owner.rank is None:
            builder.owner = owner
        return builder

    def _traceback(self, line: Line) -> bool:
        builder = self._builder(line)
        if builder is self._bare and line.level is not None:
            line = replace(line, level=None)
        if builder.state == "idle" and builder is self._bare and begins(line):
            builder.intro = self._last.text[:400]
        was, told = builder.state, builder.told
        taken, trace = builder.feed(line)
        self._active += (builder.state != "idle") - (was != "idle")
        if trace is not None:
            self._trace(trace)
        elif builder.trace is not None and builder.told != told:
            self._trace(builder.trace)  # at once: what comes next may take long, or be much
        return taken

    def _close(self) -> None:
        for builder in [*self._streams.values(), self._bare]:
            trace = builder.finish()
            if trace is not None:
                self._trace(trace)
        self._active = 0

    def _trace(self, trace: Trace) -> None:
        run = self.run
        owner = trace.owner if trace.owner.role != "none" else frames.owner_of(trace)
        last = trace.raised[-1] if trace.raised else None
        text = last.text if last else ""
        stage = frames.stage_of(trace, run.stages.get(owner.role) or run.stage)
        blames = None
        if trace.raised and all(signals.passed_on(r.text) for r in trace.raised if r.name):
            blames = signals.passed_on(text)
        elif trace.cut and not any(r.name for r in trace.raised):
            text = ""
        intro = trace.intro
        fatal = trace.level in (None, "ERROR", "CRITICAL") and not signals.harmless_intro(intro)
        kind = "cut" if trace.cut and not text else "exception"
        if kind == "cut" and run.last_line - trace.end > _NEAR:
            fatal = False  # only the rest of it is missing, not the rest of the log
        if signals.request_level(intro, trace.where) or frames.of_helper(trace):
            kind, fatal = "request", False
        elif trace.level in ("ERROR", "CRITICAL") and not signals.fatal_intro(intro):
            fatal = False
        if blames == "none":
            fatal = False
        line = last.line if last else trace.start
        told = trace.failure
        if told is None:
            told = trace.failure = Failure(kind, owner, line, text, stage, trace, fatal=fatal)
            run.add(told)
        told.kind, told.owner, told.line, told.exception, told.stage = kind, owner, line, text, stage
        told.raised, told.blames, told.fatal, told.level, told.intro = last, blames, fatal, trace.level, intro
        self._over(told)

    def _add(self, failure: Failure) -> None:
        self.run.add(failure)
        self._over(failure)

    def _over(self, failure: Failure) -> None:
        """An uncaught exception of the API server ends the run: what a new start prints belongs to the next."""
        if failure.fatal and failure.owner.role == "api_server" and failure.level is None:
            self.run.over = self.run.over or failure.kind == "exception"

    # -- single lines -------------------------------------------------------------------------------------------

    def _signal(self, line: Line) -> None:
        run, text = self.run, line.text
        if len(text) > 2 * _ENDS:  # some patterns take time that grows with the square of the length
            text = text[:_ENDS] + text[-_ENDS:]
        owner = line.owner or _NONE
        if signals.HANG in text:
            run.hang_count += 1
            if run.hang_first is None:
                run.hang_first, run.before_hang = line, run.last_work
            return
        self._work(line, run)
        if signals.ACCEPTANCE in text:
            run.acceptance.add(line)
            return
        served = signals.SERVED.search(text)
        if served:
            if served["path"].startswith("/v1/") and served["status"] == "200" and "POST" in text:
                run.served, run.hang_first, run.hang_count = line.number, None, 0
                run.stage = "serving" if run.stopping is None else run.stage
            return
        if line.level in (None, "INFO", "DEBUG"):
            self._progress(line, run, text, owner)
        if line.level in ("ERROR", "CRITICAL", "WARNING") or signals.NOTICE.search(text):
            run.note(line)
        if line.level in ("INFO", "DEBUG"):
            return  # may quote anything: prompts, file names
        if not self._death(line, run, text) and not self._native(line, run, text, owner):
            self._words(line, run, text, owner)

    def _work(self, line: Line, run: Run) -> None:
        """Remember what a worker last said (any process, as long as no worker has spoken)."""
        worker = line.owner is not None and line.owner.role == "worker"
        if line.text.strip() and (worker or run.last_work is None or run.last_work.owner is None):
            run.last_work = line

    def _progress(self, line: Line, run: Run, text: str, owner: Owner) -> None:
        if stage := signals.stage_of(text):
            if not (stage == "load" and run.stages.get(owner.role) == "draft-load"):
                run.stages[owner.role] = run.stage = stage
            run.hang_first, run.hang_count = None, 0
        elif signals.READY.search(text):
            run.ready = run.ready or line.number
            run.stage, run.hang_first, run.hang_count = "serving", None, 0
            run.stages.clear()
        elif signals.STOPPED.search(text):
            run.stopped, run.stopping = line.number, run.stopping or line.number
            run.over, run.stage = True, "shutdown"
        elif (told := signals.TOLD.search(text)) or signals.STOPPING.search(text):
            run.stopping = run.stopping or line.number
            if told and run.told is None:  # the signal goes to all at once: others may have said so first
                run.told = run.stopping if line.number - run.stopping < _NEAR else line.number
            run.stage = "shutdown" if run.ready else run.stage
        elif signals.OFFLINE.search(text):
            run.served = line.number
        elif signals.ENGINE_UP.search(text):
            run.engine_up = True
            run.stages["engine_core"] = "load"
            run.stage = "load"

    def _death(self, line: Line, run: Run, text: str) -> bool:
        code: str | None = None
        if not any(word in text for word in ("died", "exited", "terminated with")) and not signals.KILLED.match(text):
            return False
        if died := signals.died(text):
            who = Owner(*died)
        elif match := signals.CHILD_DIED.search(text):
            code = match["code"]
            if code in ("0", "-15"):
                return True
            name = match["name"] or "worker"
            role = "engine_core" if "Engine" in name else "api_server" if "API" in name.upper() else "worker"
            who = Owner(role, pid=int(match["pid"]) if match["pid"] else None)
        elif match := signals.EXITED.search(text):
            run.exit_codes.append((line.number, text[:200], signals.exit_code(match)))
            run.over = True
            return True
        elif match := signals.KILLED.match(text):
            run.exit_codes.append((line.number, text[:200], -1))
            who = Owner("container")
        else:
            return False
        if run.told is not None and not any(f.fatal for f in run.failures):
            return True
        self._add(Failure("death", who, line.number, text[:400].strip(), run.stage, level=line.level))
        return True

    def _native(self, line: Line, run: Run, text: str, owner: Owner) -> bool:
        last = run.failures[-1] if run.failures else None
        if last and last.kind == "native" and last.line >= line.number - 3 and signals.MORE_NATIVE.search(text):
            run.failures[-1] = replace(last, exception=f"{last.exception}\n{text.strip()}"[:1500])
            return True
        match = signals.NATIVE.search(text)
        if not match:
            return False
        seen = self._natives.get(match[0][:24].lower(), 0)
        self._natives[match[0][:24].lower()] = seen + 1
        if seen < 4:
            self._add(Failure("native", owner, line.number, text[:1500].strip(), run.stage, level=line.level))
        return True

    def _words(self, line: Line, run: Run, text: str, owner: Owner) -> None:
        if line.level is None and (match := signals.USAGE.match(text)) and len(match["program"]) < 60:
            fatal = "vllm" in match["program"] or "api_server" in match["program"]
            who = owner if owner.role != "none" else Owner("api_server" if fatal else "none")
            self._add(Failure("usage", who, line.number, text[:1500].strip(), "config", fatal=fatal))
            run.over = run.over or fatal
        elif line.level is None and signals.ORPHAN.match(text):
            self._add(Failure("exception", owner, line.number, text[:1500], run.stage,
                              blames=signals.passed_on(text), fatal=signals.passed_on(text) is not None))  # fmt: skip
        elif line.level in ("ERROR", "CRITICAL") and (blames := signals.passed_on(text)):
            self._add(Failure("notice", owner, line.number, text[:1500], run.stage, blames=blames, level=line.level))
