"""Steps of a training loop, timed: `for batch in run.steps(loader)`, `with run.step()`, `start_step` and `end_step`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from time import perf_counter
from types import TracebackType
from typing import Protocol, TypeVar

from chiplog.core import messages
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.step_count import StepCount
from chiplog.core.protocols import StepMeter
from chiplog.core.records import Number, Plain, Row
from chiplog.core.tracing.stopwatch import MetricLogger
from chiplog.core.values.convert import NUMBERS

T = TypeVar("T")


class StepLogger(MetricLogger, Protocol):
    """What the steps need of a run."""

    @property
    def id(self) -> str: ...

    @property
    def idle(self) -> bool: ...

    def log(self, metrics: Mapping[str, object], step: int | float | None = None) -> Row: ...

    def event(self, name: str, /, step: Number | None = None, **data: object) -> None: ...

    def before_finish(self, call: Callable[[], None]) -> None: ...


class Steps:
    """The steps of one run: the meter that measures them, and the rows written at their ends."""

    def __init__(
        self,
        run: StepLogger,
        meters: Callable[..., StepMeter] | None,
        recorder: Recorder,
        count: StepCount,
        preview: Callable[[Mapping[str, object]], tuple[Row, dict[str, object]]],
    ) -> None:
        self._run, self._meters, self._recorder, self._count, self._preview = run, meters, recorder, count, preview
        self._meter: StepMeter | None = None
        self._started: tuple[int, float] | None = None
        self._newest = 0
        self._total: int | None = None  # the planned number of steps, as passed to the meter

    def meter(self, **options: Plain) -> StepMeter:
        """Replace the meter by one with these options, which continues the counts."""
        meter: StepMeter = NoMeter() if self._meters is None or self._run.idle else self._meters(**options)
        if self._meter is None:
            self._run.before_finish(self._write_rest)
        else:
            meter.restore(self._meter.state())
        self._meter = meter
        self._count.metered_devices = options.get("devices", self._count.metered_devices or 1)
        self._total = options.get("total_steps", self._total)
        if self._total is not None:
            self._run.event("plan", steps=self._total)
        return meter

    def plan(self, total: int, done: int) -> None:
        """Record the planned number of steps, unless the meter was given one."""
        if self._total is None:
            self._run.event("plan", steps=total)
        (self._meter or self.meter()).plan(total=total, done=done)

    def start(self, step: int | None = None) -> int:
        number = self._count.begin(step)
        self._started = number, perf_counter()
        return number

    def end(
        self,
        metrics: Mapping[str, object] | None = None,
        step: int | None = None,
        tokens: int | None = None,
        samples: int | None = None,
        waited: float | None = None,
    ) -> Row | None:
        """Write the row of the step that `start` started; None for a step without a row (`log_every`)."""
        now = perf_counter()
        started, self._started = self._started, None
        if started is None:
            messages.once(f"no start {self._run.id}", "end_step() without start_step(): the step has no duration")
            return self.write(self.begin() if step is None else step, None, metrics, tokens, samples, waited)
        number, began = started
        return self.write(number if step is None else step, now - began, metrics, tokens, samples, waited)

    def begin(self, step: int | None = None, *, counted: bool = False) -> int:
        return self._count.begin(step, counted=counted)

    def write(
        self,
        step: int,
        took: float | None,
        metrics: Mapping[str, object] | None = None,
        tokens: int | None = None,
        samples: int | None = None,
        waited: float | None = None,
    ) -> Row | None:
        """Log the row of a step; `took` includes `waited`, the wait for data."""
        try:
            self._newest = step
            meter = self._meter or self.meter()
            if isinstance(meter, NoMeter):
                if metrics:
                    self._recorder.refuse_row(metrics)
                return None
            plain: Row = {}
            if type(metrics) is dict and NUMBERS.issuperset(map(type, metrics.values())):
                plain = metrics
            elif metrics:
                plain, rest = self._preview(metrics)
                if rest:  # device values and media are logged for every step
                    self._log(rest, step)
            row = meter.measure(step, plain, took, waited, tokens, samples)
            return None if row is None else self._log(row, step)
        except Exception as error:
            self._recorder.failed("end_step", error)
            return None

    def iterate(
        self,
        items: Iterable[T],
        *,
        tokens: int | None,
        samples: int | None,
        total: int | None,
        start: int | None,
    ) -> Iterator[T]:
        """Yield the items, each inside its own step."""
        first = self._count.next if start is None else start
        if total is None and isinstance(items, Sized):
            try:
                total = len(items)
            except Exception:  # a DataLoader over an IterableDataset has __len__, and raises
                total = None
        if total is not None:
            self.plan(first + total, first)
        source = iter(items)
        number = first
        while True:
            asked = perf_counter()
            with self._run.span("data"):
                try:
                    item = next(source)
                except StopIteration:
                    return
            self.begin(number, counted=start is None)
            waited = perf_counter() - asked
            yield item
            self.write(number, perf_counter() - asked, tokens=tokens, samples=samples, waited=waited)
            number += 1

    def _log(self, row: Mapping[str, object], step: int) -> Row:
        """Record a row of a step that was started before."""
        return self._run.log(row, None if self._count.joins(step) else step)

    def _write_rest(self) -> None:
        """At the end of the run: write the row of the last steps."""
        if self._meter is not None and (row := self._meter.rest()) is not None:
            self._log(row, self._newest)


class OneStep:
    """One step: rows logged inside join it; its duration is logged at its end."""

    def __init__(self, steps: Steps, tokens: int | None, samples: int | None) -> None:
        self._steps, self._tokens, self._samples = steps, tokens, samples

    def __enter__(self) -> int:
        self._number = self._steps.begin()
        self._began = perf_counter()
        return self._number

    def __exit__(self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if kind is None:
            took = perf_counter() - self._began
            self._steps.write(self._number, took, tokens=self._tokens, samples=self._samples)


class NoMeter:
    """A meter that measures nothing, for a run that keeps nothing."""

    def plan(self, *, total: int | None, done: int) -> None:
        pass

    def measure(self, step: int | float, metrics: Row, *_: object, **__: object) -> Row | None:  # noqa: ARG002
        return None

    def rest(self) -> Row | None:
        return None

    def state(self) -> dict[str, Plain]:
        return {}

    def restore(self, state: Mapping[str, Plain]) -> None:
        pass
