"""The door: a training process hands its facts to a `Run`, which appends them to the journal.

After `init` nothing here raises into the training loop (unless `strict=True`), waits for a backend, or takes a lock
on the way of `log`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from chiplog.core import records
from chiplog.core.background import forks
from chiplog.core.background.tasks import BackgroundTasks
from chiplog.core.background.thread import Background, Task
from chiplog.core.clock import RunClock
from chiplog.core.engine.alerts import Alerts, Call
from chiplog.core.engine.attachments import Attachments
from chiplog.core.engine.device_hooks import Machine
from chiplog.core.engine.events import Events
from chiplog.core.engine.held_journal import HeldJournal, is_logged
from chiplog.core.engine.observed_dict import ObservedDict, Summary
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.rows import RowWriter
from chiplog.core.engine.rules import CarriedState, Rules
from chiplog.core.engine.shutdown import Delivery, Shutdown, SinkDelivery, ending
from chiplog.core.engine.splitter import Splitter
from chiplog.core.engine.step_count import StepCount
from chiplog.core.engine.step_loop import OneStep, Steps, walk
from chiplog.core.errors import UnknownSink
from chiplog.core.identity import Identity
from chiplog.core.protocols import Finding, JournalLike, Rule, Sink, Stage, StepMeter
from chiplog.core.records import Record, Row, Step
from chiplog.core.tracing.span import Idle, Span
from chiplog.core.tracing.stopwatch import StopWatch
from chiplog.core.tracing.tracer import Tracer
from chiplog.core.values import convert
from chiplog.core.values.convert import NUMBERS
from chiplog.core.values.line_pieces import WIDEST, batches, pieces
from chiplog.core.values.media import Media
from chiplog.core.values.redact import redact

T = TypeVar("T")

current: Run | None = None  # what `chiplog.log` writes to
previous: Run | None = None  # what it was, when the current one has finished


class Run:
    """One training run, as the process sees that writes it. Made by `chiplog.init`."""

    _finished: Delivery | None = None

    def __init__(
        self,
        identity: Identity,
        journal: JournalLike | None,
        *,
        clock: RunClock,
        config: Mapping[str, Any],
        background: Background | None = None,
        stages: Sequence[Stage] = (),
        rules: Sequence[Rule] = (),
        machine: Machine | None = None,
        reread: Callable[[], Any] | None = None,
        remember: Callable[[Mapping[str, Any]], None] | None = None,
        strict: bool = False,
        first: int = 0,
    ) -> None:
        machine = machine or Machine()
        wake = None if background is None else background.wake
        self.identity = identity
        self.post: SinkDelivery | None = None
        self.across: Any = None  # what makes statistics across ranks
        self._recorder = recorder = Recorder(identity.id, journal, clock, strict=strict)
        self._journal, self._background, self._reread, self._machine = journal, background, reread, machine
        self._tracer = Tracer(machine.watcher, wake)
        self._count = StepCount(recorder, self._tracer, first)
        self._files = Attachments(identity, recorder)
        self._alerts = Alerts(recorder)
        self._rules = Rules(rules, self._alerts, recorder)
        self._memory = CarriedState((*stages, *rules), first - 1)
        self._rows = RowWriter(recorder, stages, self._rules, self._memory)
        self._events = Events(recorder, self._rules)
        self._splitter = Splitter(identity.id, recorder, self._events, self._files, machine.values, wake)
        self._steps = Steps(self, machine.meters, recorder, self._count)
        self.tasks = BackgroundTasks(
            recorder,
            self._rows,
            self._count,
            tracer=self._tracer,
            splitter=self._splitter,
            waiting=machine.values,
            memory=self._memory,
            remember=remember,
        )
        self._shutdown = Shutdown(
            identity, recorder, tracer=self._tracer, files=self._files, tasks=self.tasks, background=background
        )
        self._finishing = threading.RLock()
        self._set_summary: dict[str, Any] = {}
        self.config: ObservedDict = ObservedDict(config, partial(_note, recorder, "config"))
        if not recorder.keeps or recorder.held:
            self._tracer.on = False
        forks.watch(self)

    # -- writing ---------------------------------------------------------------------------------------------------

    def log(self, metrics: Mapping[str, Any], step: int | float | None = None) -> Row:
        """Record a row of metrics and return it; values may be numbers of any library, nested mappings, or media.

        Without a step each call is its own step, until one has been given; then it joins the newest.
        """
        recorder = self._recorder
        try:
            if type(step) is int and self._count.given:
                counted = False
                self._tracer.step = step
            else:
                step, counted = self._count.take(step)
            if type(metrics) is dict and NUMBERS.issuperset(map(type, metrics.values())):
                row = metrics.copy()
                if self._rows.plain and len(row) <= WIDEST:
                    recorder.append(Step(next(recorder.seq), monotonic_ns() + recorder.offset, step, row, counted))
                    if self._rules.active:
                        self._rules.look(row, step)
                    return metrics  # the copy may still wait to be written, and is nobody else's
            elif recorder.inert:  # nothing is asked of a value that nobody will keep
                row = {name: value for name, value in metrics.items() if type(value) in NUMBERS}
            else:
                row = self._splitter.sort(metrics, step)
                if not row:
                    return row
            return self._rows.write(row, step, counted)
        except Exception as error:
            return recorder.failed("log", error)

    def eval(self, metrics: Mapping[str, Any], step: int | float | None = None) -> Row:
        """Record an evaluation; its numbers are the series `eval/…`."""
        try:
            step = self._count.join(step)
            row = self._splitter.sort(
                {records.in_group("eval", convert.name(name)): value for name, value in metrics.items()}, step
            )
            short: dict[str, Any] = {name.removeprefix("eval/"): value for name, value in row.items()}
            for piece in pieces(short):
                self.write(records.Eval, step=step, metrics=piece)
            self._rules.look(row, step)
            return short
        except Exception as error:
            return self._recorder.failed("eval", error)

    def event(self, name: str, /, step: int | float | None = None, **data: Any) -> None:
        """Record a named fact; its numbers are series too: `run.event("gpu", id=0, power=350_000)` is `gpu/0/power`."""
        try:
            step = self._count.join(step)
            self._events.write(name, data, step)
        except Exception as error:
            self._recorder.failed("event", error)

    def table(self, name: str, rows: Any, step: int | float | None = None) -> None:
        """Append rows (mappings, or a data frame) to a named table."""
        try:
            step = self._count.join(step)
            for batch in batches(rows):
                self.write(records.Table, name=convert.name(name), rows=batch, step=step)
        except Exception as error:
            self._recorder.failed("table", error)

    def alert(
        self,
        title: str,
        level: str = "warn",
        text: str = "",
        step: int | float | None = None,
        **evidence: Any,
    ) -> None:
        """Record that something needs a person's eye, and call those who asked with `on_alert`."""
        try:
            if level not in records.LEVELS:
                self._recorder.failed(
                    "alert", ValueError(f"no alert level {level!r}; there are: {', '.join(records.LEVELS)}")
                )
                level = "warn"
            self._alerts.ring(Finding(str(title), level, str(text), evidence), "", self._count.join(step))
        except Exception as error:
            self._recorder.failed("alert", error)

    def on_alert(self, call: Call) -> Call:
        """Call a function with every alert from now on, on the thread that raised it. Usable as a decorator."""
        self._alerts.calls.append(call)
        return call

    def on_record(self, call: Callable[[Record], object]) -> None:
        """Call a function with every record from now on, when it has been written, on the thread that wrote it."""
        self._recorder.listen(call)

    def at_first_row(self, call: Callable[[], None]) -> None:
        """Call a function when something has been logged, once."""
        calls = [call]

        def first(record: Record) -> None:
            if calls and is_logged(record):
                self._recorder.forget(first)
                calls.pop()()

        self._recorder.listen(first)

    def on_media(self, call: Callable[[str, Media, int | float], object]) -> None:
        """Call a function with everything logged that is more than a number, once its arrays are on the host."""
        self._splitter.watchers.append(call)

    def artifact(self, path: str | Path, name: str | None = None, media: str = "application/octet-stream") -> None:
        """Keep a copy of a file or folder with the run; copied in the background."""
        try:
            source = Path(path)
            if not self.inert and not source.exists():
                raise FileNotFoundError(f"there is no file {str(source)!r}")
            called = convert.name(name or source.name or source.resolve().name)
            self._files.copy(source, called, media, self._count.join(None))
        except Exception as error:
            self._recorder.failed("artifact", error)

    # -- time ------------------------------------------------------------------------------------------------------

    def span(self, name: str, tags: Mapping[str, Any] | None = None, devices: Any = None) -> Span | Idle:
        """Time a stretch of work: `with run.span("forward"): ...`, as a decorator, or by hand with `begin()`, `end()`.

        With `devices` it also lies on their timelines, until what is given to its `async_end` is done.
        """
        tracer = self._tracer
        if tracer.on:
            return Span(tracer, name, tags if tags is None or type(tags) is not dict else tags.copy(), devices)
        if tags is None and devices is None and not tracer.every:
            return tracer.idle[name]
        return tracer.span(name, tags=tags, devices=devices)

    def trace(
        self,
        enabled: bool = True,
        *,
        every: int | None = None,
        concurrent: str | Iterable[str] | None = None,
        deadline: float | None = None,
        metrics: bool | None = None,
    ) -> None:
        """Switch spans on or off, or keep only those of every n-th step.

        A device does one thing after another, and what had to wait is on its queue's timeline; spans of the names in
        `concurrent` (or "all") may overlap there. Work that takes longer than `deadline` seconds is given up, marked.
        With `metrics` the spans of every step are added up and logged as `perf/…` when two later ones have begun.
        """
        try:
            if metrics is not None:
                self.tasks.time_steps(None if not metrics or self._machine.times is None else self._machine.times())
            if isinstance(self._journal, HeldJournal):
                self._journal.tracing = (bool(enabled), every)
            self._tracer.set(bool(enabled) and not self.inert and not self.held, every, concurrent, deadline)
        except Exception as error:
            self._recorder.failed("trace", error)

    def stopwatch(self, name: str, metric: str | None = None, *, tags: Mapping[str, Any] | None = None) -> StopWatch:
        """Time a stretch of work as a value and a span, and log its seconds where a metric is named."""
        return StopWatch(name, metric, run=lambda: self, tags=tags)

    def steps(
        self,
        items: Iterable[T],
        *,
        tokens: int | None = None,
        samples: int | None = None,
        total: int | None = None,
        start: int | None = None,
    ) -> Iterator[T]:
        """Go through a loader, one step an item: each is timed, its wait for data too, and `log` joins it.

        The steps begin with `start`, or go on where the run is.
        """
        return walk(self, self._steps, items, tokens=tokens, samples=samples, total=total, start=start)

    def step(self, tokens: int | None = None, samples: int | None = None) -> OneStep:
        """One step of a loop of your own: `with run.step(tokens=16384): ...`."""
        return OneStep(self._steps, tokens, samples)

    def start_step(self, step: int | None = None) -> int:
        """Begin a step where no `with` fits; `end_step` ends it."""
        return self._steps.start(step)

    def end_step(
        self,
        metrics: Mapping[str, Any] | None = None,
        *,
        step: int | None = None,
        tokens: int | None = None,
        samples: int | None = None,
        waited: float | None = None,
    ) -> Row | None:
        """End a step and log what is known of it; None for one between two rows (`meter(log_every=...)`)."""
        return self._steps.end(metrics, step, tokens, samples, waited)

    def meter(self, **options: Any) -> StepMeter:
        """Say what is known of the steps, so that their rows have MFU, epoch and time left.

        >>> run.meter(model=model.config, total_steps=10_000, log_every=10)

        The options are those of docs/throughput.md. What the meter has counted goes into a checkpoint: `state()`.
        """
        return self._steps.meter(**options)

    @property
    def tracer(self) -> Tracer:
        """What collects the spans: for front ends that look at them while the run lives."""
        return self._tracer

    def keep_spans(self) -> None:
        """Write the spans that have finished to the journal, now instead of within half a second."""
        self.tasks.spans()

    def now(self) -> int:
        """The run's own clock: wall-clock nanoseconds that never jump."""
        return self._recorder.clock.now()

    def begin_step(self, step: int | None = None, *, counted: bool = False) -> int:
        """Let what is logged without a step belong to this one, or to the next; `counted` is one that nobody gave."""
        return self._count.begin(step, counted=counted)

    def log_step(self, row: Mapping[str, Any], step: int) -> Row:
        """Record a row of a step that was begun before."""
        return self.log(row, None if self._count.joins(step) else step)

    @property
    def next_step(self) -> int:
        """The step after the newest."""
        return self._count.next

    # -- knowing ---------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.identity.id

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def project(self) -> str:
        return self.identity.project

    @property
    def dir(self) -> Path:
        return self.identity.dir

    @property
    def inert(self) -> bool:
        """Whether nothing is kept: disabled, another rank, a forked copy, or finished."""
        return not self._recorder.keeps

    @property
    def held(self) -> bool:
        """Whether it is not clear yet if this rank keeps something."""
        return self._recorder.held

    @property
    def idle(self) -> bool:
        """Whether what is logged goes nowhere at all, not even into statistics across ranks."""
        return self._recorder.inert

    @property
    def summary(self) -> Summary:
        """The last value of every series and what you set yourself; read from the journal when you look."""
        return Summary(self._set_summary, self._read_summary, self._summary_changed)

    def spans(self) -> Any:
        """The spans recorded so far."""
        if self._reread is None:
            return []
        self._tracer.look()
        self.tasks.spans()
        if self._journal is not None:
            self._journal.flush()
        return self._reread().spans()

    def health(self) -> dict[str, Any]:
        """How recording goes: what waits, what was lost and why, and every sink's state."""
        journal = self._journal
        return {
            "journal": {
                "waiting": journal.waiting if journal else 0,
                "dropped": journal.dropped if journal else 0,
                "trouble": journal.trouble if journal else None,
            },
            "device": self.tasks.on_device,
            "spans_dropped": self._tracer.dropped,
            "sinks": self.post.health() if self.post else {},
        }

    def resume_token(self) -> str:
        """What a checkpoint keeps to go on with this run: `init(resume=token)`."""
        return f"{self.project}/{self.id}"

    def sink(self, name: str) -> Sink:
        """A sink by name."""
        sinks = self.post.sinks if self.post else {}
        if self.post and name in self.post.away:
            raise UnknownSink(
                f"the sink {name!r} runs in the relay process, where its native object cannot be reached; "
                "init(relay='thread') has it here"
            )
        if name not in sinks:
            raise UnknownSink(f"this run has no sink {name!r}; it has: {', '.join(sinks) or 'none'}")
        return sinks[name]

    # -- ending ----------------------------------------------------------------------------------------------------

    def flush(self, fsync: bool = False) -> bool:
        """True when everything logged so far is out of this process, or with `fsync` on the disk."""
        if self._recorder.inert or self._journal is None:
            return True
        try:
            self.tasks.collected()
            return self._journal.flush(fsync=fsync)
        except Exception as error:
            self._recorder.failed("flush", error)
            return False

    def settle(self, timeout: float = 5.0, *sinks: str) -> bool:
        """Wait until the sinks in this process, or some of them, have everything logged so far; true if they do."""
        return self.flush() and (self.post is None or self.post.settle(timeout, *sinks))

    def finish(self, timeout: float = 30, state: str = "finished", reason: str = "") -> Delivery:
        """End the run: write what is left, let the sinks complete, and say what they did not, within `timeout`."""
        with self._finishing:
            if self._finished is not None:
                return self._finished
            if self._recorder.inert or self._journal is None:
                self._finished = Delivery(True, {})
                self._let_go()
                return self._finished
            self._finished = Delivery(False, {})  # a call from within is answered
            try:
                self._finished = self._shutdown.run(time.monotonic() + timeout, state, reason, lambda: self.post)
            except Exception as error:
                self._recorder.failed("finish", error)
            except BaseException:  # a second ^C, say: nothing is waited for any more, but how it ended is written down
                if not self._recorder.inert:
                    self._shutdown.write_end(state, reason, 1.0)
                raise
            finally:
                self._let_go()
            return self._finished

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        state, reason = ending(error)
        self.finish(state=state, reason=reason)

    def at_exit(self) -> None:
        """What the interpreter calls at its end for a run that was not finished."""
        state, reason = ending(getattr(sys, "last_value", None))
        self.finish(state=state, reason=reason)

    def keep(self, task: Task) -> None:
        """Have something done in the background, now and then, as long as the run lives."""
        if self._background is not None:
            self._background.add(task)

    def before_finish(self, call: Callable[[], None]) -> None:
        """Call a function when the run is about to end and can still be written to."""
        self._shutdown.before.append(call)

    def at_finish(self, call: Callable[[], object]) -> None:
        """Call a function when the run has ended."""
        self._shutdown.after.append(call)

    def __reduce__(self) -> tuple[Any, ...]:
        return inert, (self.identity,)

    def __repr__(self) -> str:
        return f"<chiplog run {self.project}/{self.id}>"

    # -- inside ----------------------------------------------------------------------------------------------------

    def write(self, kind: type[Record], /, **fields: Any) -> Record | None:
        """Append a record of any kind and return it; for what has no method of its own."""
        return self._recorder.write(kind, **fields)

    def take_apart(self, metrics: Mapping[str, Any]) -> tuple[Row, dict[str, Any]]:
        """The numbers of a row that need not be waited for, and what else is in it."""
        return self._splitter.apart(metrics)

    def add_statistics(self, row: Row, step: int | float) -> None:
        """Write what all ranks have reported for a step; no stage and no rule sees it."""
        for piece in pieces(row):
            self.write(Step, step=step, metrics=piece, auto=self._count.is_counted(step), across=True)

    def found(self, finding: Finding, rule: str, step: int | float) -> None:
        """Raise the alert of a rule that works in the background."""
        try:
            self._alerts.ring(finding, rule, step)
        except Exception as error:
            self._recorder.failed(f"rule {rule}", error)

    def recall(self, saved: Mapping[str, Any]) -> None:
        """Begin with what the stages and rules of the attempt before knew, if this one goes on behind it."""
        self._memory.expect(saved)
        self._rows.wait_for_state()

    def _read_summary(self) -> Mapping[str, Any]:
        if self._reread is None or self._journal is None:
            return {}
        self._journal.flush()
        summary: Mapping[str, Any] = self._reread().summary
        return summary

    def settle_by(self, call: Callable[[], None]) -> None:
        """Have it settled at the end, before the last record, whether this run keeps something."""
        self._shutdown.settle = call

    def take_over(self, attempt: int, rules: Sequence[Rule]) -> None:
        """Keep from here on what was held, as this attempt, and judge it by rules."""
        self.identity = msgspec.structs.replace(self.identity, attempt=attempt)
        self._rules.replace(rules)
        self._files.begin()
        if isinstance(self._journal, HeldJournal):
            self._tracer.set(*self._journal.tracing)

    def let_go(self, *, end: bool) -> None:
        """Keep nothing, as another rank keeps the run; with `end` take no part in anything either."""
        self._tracer.set(False)
        self._files.forget()
        if end:
            self._stop("")

    def _summary_changed(self, changed: Mapping[str, Any]) -> None:
        plain = convert.plain(changed)
        self._set_summary.update(plain)
        _note(self._recorder, "summary", plain)

    def forked(self) -> None:
        """In a forked child: the run belongs to the parent."""
        if self._journal is not None and not self._recorder.inert:
            self._stop(f"this is a forked process; chiplog.attach({str(self.dir)!r}) opens a journal of its own")
            self._journal.forget()
        self._tracer.forget()
        self._files.forget()
        self._finishing = threading.RLock()
        self._finished = self._finished or Delivery(True, {})

    def _stop(self, reason: str) -> None:
        """Keep nothing from here on, and say why when asked to."""
        self._recorder.stop(reason)
        self._tracer.set(False)

    def _let_go(self) -> None:
        global current, previous
        if current is self:
            current, previous = None, self


def inert(
    identity: Identity,
    config: Mapping[str, Any] | None = None,
    reason: str = "this is a copy of the run in another process",
) -> Run:
    """A run that keeps nothing: what a pickled run becomes elsewhere, and what `CHIPLOG_MODE=disabled` gives."""
    run = Run(identity, None, clock=RunClock(), config=identity.config if config is None else config)
    run._recorder.stop(f"{reason}; chiplog.attach({str(identity.dir)!r}) opens a journal of its own" if reason else "")
    return run


def _note(recorder: Recorder, name: str, changed: Mapping[str, Any]) -> None:
    """Record what was set in the config or the summary."""
    recorder.write(records.Event, name=name, data=redact(convert.plain(changed)))
