"""The door: a training process hands its facts to a `Run`, which appends them to the journal.

After `init` nothing here raises into the training loop (unless `strict=True`), waits for a backend, or takes a lock
on the way of `log`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Any, TypeVar

from chiplog.core import forks, notes, records, values
from chiplog.core.alarm import Alarm, Call
from chiplog.core.blank import Blank
from chiplog.core.chores import Chores
from chiplog.core.clock import Clock
from chiplog.core.ending import Delivery, Ending, Post, ending
from chiplog.core.errors import UnknownSink
from chiplog.core.files import Files
from chiplog.core.identity import Identity
from chiplog.core.intake import WIDEST, Intake, batches, facts, pieces
from chiplog.core.keeper import Chore, Keeper
from chiplog.core.live import Live, Summary
from chiplog.core.media import Image, Media
from chiplog.core.protocols import Finding, Meter, Pages, Rule, Sink, Stage, Times, Waiting
from chiplog.core.records import Record, Row, Step
from chiplog.core.redact import redact, redact_words
from chiplog.core.rules import Memory, Rules
from chiplog.core.spans import Idle, Span
from chiplog.core.steps import OneStep, Steps, walk
from chiplog.core.stopwatch import StopWatch
from chiplog.core.texts import cut
from chiplog.core.tracer import Tracer, Watcher
from chiplog.core.values import NUMBERS

T = TypeVar("T")

current: Run | None = None  # what `chiplog.log` writes to
previous: Run | None = None  # what it was, when the current one has finished


class Run:
    """One training run, as the process sees that writes it. Made by `chiplog.init`."""

    # An object of 30 attributes or more is slower at each of them, in CPython; these two are seldom set.
    _finished: Delivery | None = None
    _inert_reason = ""

    def __init__(
        self,
        identity: Identity,
        journal: Pages | None,
        *,
        clock: Clock,
        config: Mapping[str, Any],
        keeper: Keeper | None = None,
        stages: Sequence[Stage] = (),
        rules: Sequence[Rule] = (),
        waiting: Waiting | None = None,
        watcher: Watcher | None = None,
        post: Post | None = None,
        reread: Callable[[], Any] | None = None,
        remember: Callable[[Mapping[str, Any]], None] | None = None,
        meters: Callable[..., Meter] | None = None,
        times: Callable[[], Times] | None = None,
        strict: bool = False,
    ) -> None:
        self.identity = identity
        self.config: Live = Live(config, self._config_changed)
        self._journal = journal
        self._append = _nowhere if journal is None else journal.append
        self._clock = clock
        self._offset = clock.offset
        self._seq = count()
        self._auto: Iterator[int] | None = count()
        self._keeper = keeper
        self._stages = tuple(stages)
        self.post = post
        self._reread = reread
        self._strict = strict
        self._new_times = times
        self._tracer = Tracer(watcher, None if keeper is None else keeper.wake)
        self._files = Files(identity, self.write)
        self._alarm = Alarm(self.write, self._failed)
        self._rules = Rules(rules, self._alarm.ring, self._failed)
        self._judge = self._rules.look if rules else None
        self._memory = Memory((*stages, *rules))
        self._remember = remember
        self._steps = Steps(self, meters, self._failed)
        self._intake = Intake(
            identity.id,
            write=self.write,
            event=self.event,
            image=self._keep_image,
            waiting=waiting,
            wake=_nothing if keeper is None else keeper.wake,
        )
        self.chores = Chores(
            write=self.write,
            write_row=self._write_row,
            clock=clock,
            tracer=self._tracer,
            rules=self._rules,
            intake=self._intake,
            waiting=waiting,
            memory=self._memory,
            remember=self._write_memory,
        )
        self._set_summary: dict[str, Any] = {}
        self._finishing = threading.RLock()
        # Nothing between row and journal, also nothing that rules remember of an attempt before.
        self._plain = journal is not None and not self._stages
        self._inert = journal is None
        self._ending = Ending(identity, journal, keeper, self._files, self.chores)
        if self.inert:
            self._tracer.on = False
        forks.watch(self)

    # -- writing ---------------------------------------------------------------------------------------------------

    def log(self, metrics: Mapping[str, Any], step: int | float | None = None) -> Row:
        """Record a row of metrics and return it; values may be numbers of any library, nested mappings, or media.

        Without a step each call is its own step, until one has been given; then it joins the newest.
        """
        try:
            auto = False
            if step is None:
                if self._auto is None:
                    step = self._tracer.step
                else:
                    step, auto = next(self._auto), True
            else:
                self._auto = None
                if type(step) is not int:
                    step = self._number_of_step(step)
            self._tracer.step = step
            if type(metrics) is dict and NUMBERS.issuperset(map(type, metrics.values())):
                row = metrics.copy()
                if self._plain and len(row) <= WIDEST:
                    self._append(Step(next(self._seq), monotonic_ns() + self._offset, step, row, auto))
                    if self._judge is not None:
                        self._judge(row, step)
                    return metrics  # the copy may still wait to be written, and is nobody else's
            elif self._inert:  # nothing is asked of a value that nobody will keep
                row = {name: value for name, value in metrics.items() if type(value) in NUMBERS}
            else:
                row = self._intake.sort(metrics, step)
                if not row:
                    return row
            return self._write_row(row, step, auto)
        except Exception as error:
            return self._failed("log", error)

    def _write_row(self, row: Row, step: int | float, auto: bool = False) -> Row:
        if self._inert:
            return self._refuse(row)
        if self._memory.pending:
            self._memory.begin(step)
            self._plain = not self._stages
        for stage in self._stages:
            try:
                row = stage(row, step) or row
            except Exception as error:
                self._failed(f"stage {getattr(stage, '__name__', type(stage).__name__)}", error)
        if len(row) <= WIDEST:
            self._append(Step(next(self._seq), monotonic_ns() + self._offset, step, row, auto))  # type: ignore[arg-type]
        else:
            for piece in pieces(row):
                self._append(Step(next(self._seq), monotonic_ns() + self._offset, step, piece, auto))  # type: ignore[arg-type]
        self._rules.look(row, step)
        return row.copy()

    def eval(self, metrics: Mapping[str, Any], step: int | float | None = None) -> Row:
        """Record an evaluation; its numbers are the series `eval/…`."""
        try:
            step = self._joined(step)
            row = self._intake.sort(
                {records.in_group("eval", values.name(name)): value for name, value in metrics.items()}, step
            )
            short: dict[str, Any] = {name.removeprefix("eval/"): value for name, value in row.items()}
            for piece in pieces(short):
                self.write(records.Eval, step=step, metrics=piece)
            self._rules.look(row, step)
            return short
        except Exception as error:
            return self._failed("eval", error)

    def event(self, name: str, /, step: int | float | None = None, **data: Any) -> None:
        """Record a named fact; its numbers are series too: `run.event("gpu", id=0, power=350)` is `gpu/0/power`."""
        try:
            step = self._joined(step)
            record = self.write(records.Event, name=values.name(name), data=facts(data), step=step)
            if self._rules and isinstance(record, records.Event):
                self._rules.hear(record.name, record.data, step)
                self._rules.look(dict(records.points(record)), step)
        except Exception as error:
            self._failed("event", error)

    def table(self, name: str, rows: Any, step: int | float | None = None) -> None:
        """Append rows (mappings, or a data frame) to a named table."""
        try:
            step = self._joined(step)
            for batch in batches(rows):
                self.write(records.Table, name=values.name(name), rows=batch, step=step)
        except Exception as error:
            self._failed("table", error)

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
                self._failed("alert", ValueError(f"no alert level {level!r}; there are: {', '.join(records.LEVELS)}"))
                level = "warn"
            self._alarm.ring(Finding(str(title), level, str(text), evidence), "", self._joined(step))
        except Exception as error:
            self._failed("alert", error)

    def on_alert(self, call: Call) -> Call:
        """Call a function with every alert from now on, on the thread that raised it. Usable as a decorator."""
        self._alarm.calls.append(call)
        return call

    def on_record(self, call: Callable[[Record], object]) -> None:
        """Call a function with every record from now on, when it has been written, on the thread that wrote it."""
        append = self._append

        def then(record: Record) -> None:
            append(record)
            try:
                call(record)
            except Exception as error:
                self._failed("on_record", error)

        self._append = then

    def on_media(self, call: Callable[[str, Media, int | float], object]) -> None:
        """Call a function with everything logged that is more than a number, once its arrays are on the host."""
        self._intake.watchers.append(call)

    def artifact(self, path: str | Path, name: str | None = None, media: str = "application/octet-stream") -> None:
        """Keep a copy of a file or folder with the run; copied in the background."""
        try:
            source = Path(path)
            if self.inert:
                self._refuse()
            elif not source.exists():
                raise FileNotFoundError(f"there is no file {str(source)!r}")
            else:
                self._files.copy(source, values.name(name or source.stem), media, self._joined(None))
        except Exception as error:
            self._failed("artifact", error)

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
                self.chores.time_steps(None if not metrics or self._new_times is None else self._new_times())
            self._tracer.set(bool(enabled) and not self.inert, every, concurrent, deadline)
        except Exception as error:
            self._failed("trace", error)

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
        start: int = 0,
    ) -> Iterator[T]:
        """Go through a loader, one step an item: each is timed, its wait for data too, and `log` joins it."""
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

    def meter(self, **options: Any) -> Meter:
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
        self.chores.spans()

    def now(self) -> int:
        """The run's own clock: wall-clock nanoseconds that never jump."""
        return self._clock.now()

    def begin_step(self, step: int) -> None:
        """Let what is logged without a step belong to this one."""
        self._auto = None
        self._tracer.step = step

    @property
    def next_step(self) -> int:
        """The step after the newest."""
        if self._auto is not None or self._tracer.step - self._tracer.step != 0:  # none yet, or not finite
            return 0
        return int(self._tracer.step) + 1

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
        return self._inert or isinstance(self._journal, Blank)

    @property
    def summary(self) -> Summary:
        """The last value of every series and what you set yourself; read from the journal when you look."""
        return Summary(self._set_summary, self._read_summary, self._summary_changed)

    def spans(self) -> Any:
        """The spans recorded so far."""
        if self._reread is None:
            return []
        self._tracer.look()
        self.chores.spans()
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
            "device": self.chores.on_device,
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
        if self._inert or self._journal is None:
            return True
        try:
            self.chores.collected()
            return self._journal.flush(fsync=fsync)
        except Exception as error:
            self._failed("flush", error)
            return False

    def finish(self, timeout: float = 30, state: str = "finished", reason: str = "") -> Delivery:
        """End the run: write what is left, let the sinks complete, and say what they did not, within `timeout`."""
        with self._finishing:
            if self._finished is not None:
                return self._finished
            if self._inert or self._journal is None:
                self._finished = Delivery(True, {})
                self._let_go()
                return self._finished
            self._finished = Delivery(False, {})  # a call from within is answered
            try:
                self._finished = self._ending.come(
                    time.monotonic() + timeout,
                    lambda left: self._write_end(state, reason, left),
                    lambda: self._end("the run has finished"),
                    self.post,
                )
            except Exception as error:
                self._failed("finish", error)
            except BaseException:  # a second ^C, say: nothing is waited for any more, but how it ended is written down
                if not self._inert:
                    self._write_end(state, reason, 1.0)
                raise
            finally:
                self._let_go()
            return self._finished

    def _write_end(self, state: str, reason: str, timeout: float) -> None:
        journal = self._journal
        assert journal is not None
        self._end("the run has finished")
        last = records.Finish(
            next(self._seq), self._clock.now(), state, cut(redact_words(cut(reason)), 2000), journal.dropped
        )
        journal.close(last, timeout=timeout)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        state, reason = ending(error)
        self.finish(state=state, reason=reason)

    def at_exit(self) -> None:
        """What the interpreter calls at its end for a run that was not finished."""
        state, reason = ending(getattr(sys, "last_value", None))
        self.finish(state=state, reason=reason)

    def keep(self, chore: Chore) -> None:
        """Have something done in the background, now and then, as long as the run lives."""
        if self._keeper is not None:
            self._keeper.add(chore)

    def before_finish(self, call: Callable[[], None]) -> None:
        """Call a function when the run is about to end and can still be written to."""
        self._ending.before.append(call)

    def at_finish(self, call: Callable[[], None]) -> None:
        """Call a function when the run has ended."""
        self._ending.after.append(call)

    def __reduce__(self) -> tuple[Any, ...]:
        return inert, (self.identity,)

    def __repr__(self) -> str:
        return f"<chiplog run {self.project}/{self.id}>"

    # -- inside ----------------------------------------------------------------------------------------------------

    def write(self, kind: type[Record], /, **fields: Any) -> Record | None:
        """Append a record of any kind and return it; for what has no method of its own."""
        if self._inert:
            self._refuse()
            return None
        record = kind(next(self._seq), self._clock.now(), **fields)
        self._append(record)
        return record

    def _keep_image(self, name: str, image: Image, step: int | float) -> None:
        if self.inert:
            self._refuse()
        else:
            self._files.image(name, image, step)

    def _joined(self, step: int | float | None) -> int | float:
        if step is None:
            return self._tracer.step
        return step if type(step) is int else self._number_of_step(step)

    def add_row(self, row: Row, step: int | float) -> None:
        """Write what became known of a step later; no stage and no rule sees it."""
        for piece in pieces(row):
            self.write(Step, step=step, metrics=piece, auto=self._auto is not None)

    def found(self, finding: Finding, rule: str, step: int | float) -> None:
        """Raise the alert of a rule that works in the background."""
        try:
            self._alarm.ring(finding, rule, step)
        except Exception as error:
            self._failed(f"rule {rule}", error)

    def _number_of_step(self, step: Any) -> int | float:
        number = values.number(step)
        if number is None:
            self._failed(
                "log", TypeError(f"a step is a number, not {step!r}; the newest one, {self._tracer.step}, is taken")
            )
            return self._tracer.step
        return int(number) if isinstance(number, bool) else number

    def recall(self, saved: Mapping[str, Any]) -> None:
        """Begin with what the stages and rules of the attempt before knew, if this one goes on behind it."""
        self._memory.expect(saved)
        self._plain = self._plain and not self._memory.pending

    def _write_memory(self, state: Mapping[str, Any]) -> None:
        if self._remember is not None and self._auto is None:  # steps that we counted say nothing to the next attempt
            self._remember(state)

    def _read_summary(self) -> Mapping[str, Any]:
        if self._reread is None or self._journal is None:
            return {}
        self._journal.flush()
        summary: Mapping[str, Any] = self._reread().summary
        return summary

    def _config_changed(self, changed: Mapping[str, Any]) -> None:
        self.write(records.Event, name="config", data=redact(values.plain(changed)))

    def _summary_changed(self, changed: Mapping[str, Any]) -> None:
        plain = values.plain(changed)
        self._set_summary.update(plain)
        self.write(records.Event, name="summary", data=redact(plain))

    def _failed(self, what: str, error: Exception) -> Row:
        if self._strict:
            raise error
        notes.once(f"{what} {self.id} {type(error).__name__}", f"{what}: {error}; training goes on")
        return {}

    def _refuse(self, row: Row | None = None) -> Row:
        if self._inert_reason:
            notes.once(
                f"inert {self.id} {os.getpid()}",
                f"run {self.id}: {self._inert_reason}; what is logged here is not kept",
            )
        return row or {}

    def forked(self) -> None:
        """In a forked child: the run belongs to the parent."""
        if self._journal is not None and not self._inert:
            self._end(f"this is a forked process; chiplog.attach({str(self.dir)!r}) opens a journal of its own")
            self._journal.forget()
        self._tracer.forget()
        self._files.forget()
        self._finishing = threading.RLock()
        self._finished = self._finished or Delivery(True, {})

    def _end(self, reason: str) -> None:
        """Keep nothing from here on, and say why when asked to."""
        self._inert, self._plain, self._inert_reason = True, False, reason
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
    run = Run(identity, None, clock=Clock(), config=identity.config if config is None else config)
    if reason:
        run._inert_reason = f"{reason}; chiplog.attach({str(identity.dir)!r}) opens a journal of its own"
    return run


def _nowhere(_: Record) -> None:
    pass


def _nothing() -> None:
    pass
