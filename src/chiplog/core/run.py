"""The run: the object to which a training process passes its facts, and which appends them to the journal.

After `init`, nothing here raises into the training loop (unless `strict=True`) or waits for a backend, and `log` is
free of locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from chiplog.core import records
from chiplog.core.background import forks
from chiplog.core.background.thread import Task
from chiplog.core.engine.components import Components
from chiplog.core.engine.public_names import PUBLIC_NAMES, WRITABLE, assign
from chiplog.core.engine.recorder import R
from chiplog.core.engine.reentry_guard import ReentryGuard, is_ours
from chiplog.core.engine.rules import AlertListener
from chiplog.core.engine.shutdown import NO_SINKS, Delivery, SinkDelivery, ending
from chiplog.core.engine.step_loop import OneStep, Steps
from chiplog.core.identity import Identity
from chiplog.core.protocols import Finding, RankStatistics, Rule, Sink, StepMeter
from chiplog.core.records import Number, Plain, Record, Row, Step
from chiplog.core.tracing.idle_span import Idle
from chiplog.core.tracing.span import Span
from chiplog.core.tracing.stopwatch import StopWatch
from chiplog.core.values import convert, log_call
from chiplog.core.values.convert import NUMBERS
from chiplog.core.values.observed_dict import ObservedDict, Summary
from chiplog.core.values.observed_list import ObservedList, as_words
from chiplog.core.values.redact import redact_text
from chiplog.core.values.row_pieces import WIDEST, batches

T = TypeVar("T")

current: Run | None = None  # the run that `chiplog.log` writes to
previous: Run | None = None  # the run that was current and has finished
_COPY = "this is a copy of the run in another process"


class Run:
    """One training run, as seen by the process that writes it. Created by `chiplog.init`."""

    def __init__(self, engine: Components, config: Mapping[str, object]) -> None:
        self.engine = engine  # for the other layers, as are the next two
        self.post: SinkDelivery | None = None
        self.identity = engine.identity
        self.across: RankStatistics | None = None  # for front ends too
        self.tracer = engine.tracer  # for front ends that have spans of their own
        self._config = ObservedDict(config, partial(engine.changes.write, "config"))
        self._tags = ObservedList(engine.identity.tags, self._tags_changed)
        self._recorder, self._count, self._tasks = engine.recorder, engine.count, engine.tasks  # for the hot path
        self._rows, self._rules, self._splitter = engine.rows, engine.rules, engine.splitter
        self._background, self._shutdown = engine.background, engine.shutdown
        self._steps = Steps(self, engine.meters, engine.recorder, engine.count, engine.splitter.preview)
        forks.watch(self)

    # -- writing -------------------------------------------------------------------------------------------------------

    def log(
        self, metrics: Mapping[str, object] | None = None, step: Number | None = None, *more: object, **named: object
    ) -> Row:
        """Record a row of metrics and return it; values may be numbers of any library, nested mappings, or media.

        Without a step, each call is its own step until a call passes one; from then on, it joins the newest step.
        `run.log(loss=0.5)` works too.
        """
        recorder = self._recorder
        try:
            if type(metrics) is not dict or named or more:
                metrics, step = log_call.understand("log", self.id, metrics, step, more, named)
                if not metrics:
                    return {}
            if type(step) is int and self._count.explicit:
                counted = False
                self.tracer.step = step
            else:
                step, counted = self._count.resolve(step)
            if type(metrics) is dict and NUMBERS.issuperset(map(type, metrics.values())):
                row = metrics.copy()
                if self._rows.plain and len(row) <= WIDEST:
                    recorder.append(Step(next(recorder.seq), monotonic_ns() + recorder.offset, step, row, counted))
                    if self._rules.active:
                        self._rules.check(row, step)
                    return metrics  # the copy may still wait to be written, and must not be shared
            elif recorder.inert:  # do not touch values that are not kept
                recorder.refuse_row(metrics)
                row = {name: value for name, value in metrics.items() if type(value) in NUMBERS}
                return row
            else:
                row = self._splitter.split(metrics, step)
                if not row:
                    return row
            return self._rows.write(row, step, counted)
        except Exception as error:
            return recorder.failed("log", error)

    def eval(
        self, metrics: Mapping[str, object] | None = None, step: Number | None = None, *more: object, **named: object
    ) -> Row:
        """Record an evaluation; its numbers are the series `eval/…`."""
        with self._recorder.guard("eval"):
            metrics, step = log_call.understand("eval", self.id, metrics, step, more, named)
            step = self._count.join(step)
            named = {records.in_group("eval", convert.name(name)): value for name, value in metrics.items()}
            return self._rows.write_eval(self._splitter.split(named, step), step)
        return {}

    def event(self, name: str, /, step: Number | None = None, **data: object) -> None:
        """Record a named fact; its numbers are series too: `run.event("gpu", id=0, power=350_000)` is `gpu/0/power`."""
        with self._recorder.guard("event"):
            self.engine.events.write(name, data, self._count.join(step))

    def table(self, name: str, rows: object, step: Number | None = None) -> None:
        """Append rows (mappings, or a data frame) to a named table."""
        with self._recorder.guard("table"):
            step = self._count.join(step)
            if isinstance(rows, (str, bytes)):
                problem = f"rows are mappings or a data frame, not {convert.text(rows)[:60]!r}; it is stored as one row"
                self._recorder.failed("table", TypeError(problem))
                rows = [{"value": rows}]
            for batch in batches(rows):
                self.write(records.Table, name=convert.name(name), rows=batch, step=step)

    def alert(
        self, title: str, level: str = "warn", text: str | None = "", step: Number | None = None, **evidence: object
    ) -> None:
        """Record something that needs attention, and call the functions registered with `on_alert`."""
        with self._recorder.guard("alert"):
            finding = Finding(str(title), level, "" if text is None else str(text), evidence)
            self.engine.alerts.write_by_hand(finding, self._count.join(step))

    def on_alert(self, call: AlertListener) -> AlertListener:
        """Call a function with every alert from now on, on the thread that raised it. Usable as a decorator."""
        self.engine.alerts.listeners.append(call if is_ours(call) else ReentryGuard(call, "a function of on_alert"))
        return call

    def on_record(self, call: Callable[[Record], object]) -> None:
        """Call a function with every record from now on, after it was written, on the thread that wrote it."""
        self._recorder.listen(call if is_ours(call) else ReentryGuard(call, "a function of on_record"))

    def artifact(self, path: str | Path, name: str | None = None, media: str = "application/octet-stream") -> None:
        """Keep a copy of a file or folder with the run; it is copied in the background."""
        with self._recorder.guard("artifact"):
            self.engine.files.copy(Path(path), name, media, self._count.join(None))

    # -- time ----------------------------------------------------------------------------------------------------------

    def span(self, name: str, tags: Mapping[str, object] | None = None, devices: object = None) -> Span | Idle:
        """Time some work: `with run.span("forward"): ...`, as a decorator, or by hand with `begin()` and `end()`.

        With `devices` it is also on their timelines, until the work passed to its `async_end` is done.
        """
        tracer = self.tracer
        if tracer.on:
            return Span(tracer, name, tags if tags is None or type(tags) is not dict else tags.copy(), devices)
        if tags is None and devices is None and not tracer.every:
            return tracer.idle[name]
        return tracer.span(name, tags=tags, devices=devices)

    def trace(
        self, enabled: bool = True, *, every: int | None = None, concurrent: str | Iterable[str] | None = None,
        deadline: float | None = None, metrics: bool | None = None,
    ) -> None:  # fmt: skip
        """Switch spans on or off, or keep only those of every n-th step.

        A device runs one thing at a time, and work that had to wait is on the timeline of its queue; spans of the names
        in `concurrent` (or "all") may overlap there. Work that takes longer than `deadline` seconds is abandoned and
        marked. With `metrics`, the spans of a step are added up and logged as `perf/…` after two more steps.
        """
        with self._recorder.guard("trace"):
            if metrics is not None:
                self._tasks.time_steps(metrics)
            self.engine.trace(bool(enabled), every, concurrent, deadline)

    def stopwatch(self, name: str, metric: str | None = None, *, tags: Mapping[str, object] | None = None) -> StopWatch:
        """Time some work as a value and as a span, and log its seconds if a metric is named."""
        return StopWatch(name, metric, run=lambda: self, tags=tags)

    def steps(
        self, items: Iterable[T], *, tokens: int | None = None, samples: int | None = None, total: int | None = None,
        start: int | None = None,
    ) -> Iterator[T]:  # fmt: skip
        """Iterate over a loader, one step per item: each step and its wait for data are timed, and `log` joins it.

        The steps start at `start`, or continue where the run is.
        """
        return self._steps.iterate(items, tokens=tokens, samples=samples, total=total, start=start)

    def step(self, tokens: int | None = None, samples: int | None = None) -> OneStep:
        """One step of a loop of your own: `with run.step(tokens=16384): ...`."""
        return OneStep(self._steps, tokens, samples)

    def start_step(self, step: int | None = None) -> int:
        """Start a step where a `with` block does not fit; `end_step` ends it."""
        return self._steps.start(step)

    def end_step(
        self, metrics: Mapping[str, object] | None = None, *, step: int | None = None, tokens: int | None = None,
        samples: int | None = None, waited: float | None = None,
    ) -> Row | None:  # fmt: skip
        """End a step and log its row; None for a step without a row (`meter(log_every=...)`)."""
        return self._steps.end(metrics, step, tokens, samples, waited)

    def meter(self, **options: Any) -> StepMeter:
        """Describe the steps, so that their rows have MFU, epoch and remaining time.

        >>> run.meter(model=model, total_steps=10_000, log_every=10)

        The options are in docs/throughput.md. Save the counts of the meter, `state()`, in a checkpoint.
        """
        return self._steps.meter(**options)

    def now(self) -> int:
        """The run's own clock: wall-clock nanoseconds that never jump."""
        return self._recorder.clock.now()

    def begin_step(self, step: int | None = None, *, counted: bool = False) -> int:
        """Start a step, by default the next: rows logged without a step join it. `counted` if no user chose it."""
        return self._count.begin(step, counted=counted)

    @property
    def next_step(self) -> int:
        """The step after the newest."""
        return self._count.next

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.identity.id

    @property
    def name(self) -> str:
        """For people to read, by default the id; may be changed during the run."""
        return self.identity.name

    @name.setter
    def name(self, name: str | None) -> None:
        words = redact_text(convert.name(name)) if name else self.id
        self.identity = msgspec.structs.replace(self.identity, name=words)
        self.engine.changes.write("name", {"name": self.name})

    @property
    def tags(self) -> ObservedList:
        """Words to find the run by."""
        return self._tags

    @tags.setter
    def tags(self, tags: Iterable[str] | str | None) -> None:
        with self._recorder.guard("tags"):
            self._tags[:] = as_words(tags)

    @property
    def config(self) -> ObservedDict:
        """The configuration, by key or attribute; every change is stored."""
        return self._config

    @config.setter
    def config(self, values: object) -> None:
        if values is not self._config:  # `run.config |= ...` assigns it to itself
            with self._recorder.guard("config"):
                self._config.update(values)

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
    def idle(self) -> bool:
        """Whether logged rows are dropped, and are not even part of statistics across ranks."""
        return self._recorder.inert

    @property
    def summary(self) -> Summary:
        """The last value of every series, and the values you set; read from the journal on first access."""
        return self.engine.read_back.summary()

    @summary.setter
    def summary(self, values: Mapping[str, Plain]) -> None:
        with self._recorder.guard("summary"):
            self.summary.update(values)

    def spans(self) -> Any:
        """The spans recorded so far."""
        return self.engine.read_back.spans()

    def write_spans(self) -> None:
        """Write the spans that have finished; for front ends that read them back."""
        self._tasks.write_spans()

    def health(self) -> dict[str, Plain]:
        """The state of recording: what waits, what was lost and why, and the state of every sink."""
        return self.engine.health(self.post or NO_SINKS)

    def resume_token(self) -> str:
        """The token to save in a checkpoint, with which `init(resume=token)` continues this run."""
        return f"{self.dir.parent.name}/{self.dir.name}"

    def sink(self, name: str) -> Sink:
        """A sink by name."""
        return (self.post or NO_SINKS).sink(name)

    # -- ending --------------------------------------------------------------------------------------------------------

    def flush(self, fsync: bool = False) -> bool:
        """True if everything logged so far has left this process, or with `fsync` is on the disk."""
        return self._tasks.flush(fsync=fsync)

    def settle(self, timeout: float = 5.0, *sinks: str) -> bool:
        """Wait until the sinks in this process, or the named ones, have everything logged so far; true if they do."""
        return self.flush() and (self.post or NO_SINKS).settle(timeout, *sinks)

    def finish(self, timeout: float = 30, state: str = "finished", reason: str = "") -> Delivery:
        """End the run within `timeout` seconds: write what is left, close the sinks, and report what they lack.

        The state may be your own, such as "pruned" for a trial that was stopped early.
        """
        global current, previous
        try:
            return self._shutdown.finish(timeout, str(state), str(reason), lambda: self.post)
        finally:
            if current is self:
                current, previous = None, self

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        state, reason = ending(error)
        self.finish(state=state, reason=reason)

    def keep(self, task: Task) -> None:
        """Run a task periodically in the background until the run ends."""
        if self._background is not None:
            self._background.add(task)

    def before_finish(self, call: Callable[[], None]) -> None:
        """Call a function when the run is about to end and can still be written to."""
        self._shutdown.before.append(call)

    def at_finish(self, call: Callable[[], object]) -> None:
        """Call a function when the run has ended."""
        self._shutdown.after.append(call)

    def __setattr__(self, name: str, value: object) -> None:
        if name[0] == "_" or name in WRITABLE:
            object.__setattr__(self, name, value)
        else:
            with self._recorder.guard(f"run.{name}"):
                assign(self, name, value)

    def __dir__(self) -> list[str]:
        return list(PUBLIC_NAMES)

    def __reduce__(self) -> tuple[Callable[[Identity], Run], tuple[Identity]]:
        return inert, (self.identity,)

    def __repr__(self) -> str:
        return self.engine.describe()

    def write(self, kind: type[R], /, **fields: Plain) -> R | None:
        """Append a record of a kind that has no method of its own, and return it."""
        return self._recorder.write(kind, **fields)

    def _tags_changed(self, tags: Iterable[str]) -> None:
        self.identity = msgspec.structs.replace(self.identity, tags=tuple(map(redact_text, tags)))
        self.engine.changes.write("tags", {"tags": list(self.identity.tags)})

    def take_over(self, attempt: int, rules: Sequence[Rule]) -> None:
        """Keep the held records and all later ones, as this attempt, and apply these rules."""
        self.identity = self.engine.take_over(attempt, rules)

    def forked(self) -> None:
        self.engine.forked()


def inert(identity: Identity, config: Mapping[str, object] | None = None, reason: str = _COPY) -> Run:
    """A run that keeps nothing: a pickled run in another process, or a run with `CHIPLOG_MODE=disabled`."""
    run = Run(Components(identity), identity.config if config is None else config)
    run._recorder.stop(f"{reason}; chiplog.attach({str(identity.dir)!r}) opens a journal of its own" if reason else "")
    return run
