"""Steps of a training loop, timed: `for batch in run.steps(loader)`, `with run.step()`, `start_step` and `end_step`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from chiplog.core import messages
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.step_count import StepCount
from chiplog.core.protocols import StepMeter
from chiplog.core.records import Row
from chiplog.core.values.convert import NUMBERS

if TYPE_CHECKING:
    from chiplog.core.run import Run

T = TypeVar("T")


class Steps:
    """The steps of one run: what measures them, and the rows that their ends make."""

    def __init__(self, run: Run, meters: Callable[..., StepMeter] | None, recorder: Recorder, count: StepCount) -> None:
        self._run, self._meters, self._recorder, self._count = run, meters, recorder, count
        self._meter: StepMeter | None = None
        self._started: tuple[int, float] | None = None
        self._newest = 0
        self._total: int | None = None  # steps there will be, as given to the meter

    def meter(self, **options: Any) -> StepMeter:
        """Measure from now on by a meter with these options; what has been counted stays."""
        made: StepMeter = NoMeter() if self._meters is None or self._run.idle else self._meters(**options)
        if self._meter is None:
            self._run.before_finish(self._leave)
        else:
            made.restore(self._meter.state())
        self._meter = made
        self._total = options.get("total_steps", self._total)
        if self._total is not None:
            self._run.event("plan", steps=self._total)
        return made

    def plan(self, total: int, done: int) -> None:
        """Say how many steps there will be, unless that was said."""
        if self._total is None:
            self._run.event("plan", steps=total)
        (self._meter or self.meter()).plan(total=total, done=done)

    def start(self, step: int | None = None) -> int:
        number = self._count.begin(step)
        self._started = number, perf_counter()
        return number

    def end(
        self,
        metrics: Mapping[str, Any] | None = None,
        step: int | None = None,
        tokens: int | None = None,
        samples: int | None = None,
        waited: float | None = None,
    ) -> Row | None:
        """The row of the step that `start` began; None for one between two rows."""
        now = perf_counter()
        started, self._started = self._started, None
        if started is None:
            messages.once(f"no start {self._run.id}", "end_step() without start_step() before it: the step has no time")
            return self.write(self.begin() if step is None else step, None, metrics, tokens, samples, waited)
        number, began = started
        return self.write(number if step is None else step, now - began, metrics, tokens, samples, waited)

    def begin(self, step: int | None = None, *, counted: bool = False) -> int:
        return self._count.begin(step, counted=counted)

    def write(
        self,
        step: int,
        took: float | None,
        metrics: Mapping[str, Any] | None = None,
        tokens: int | None = None,
        samples: int | None = None,
        waited: float | None = None,
    ) -> Row | None:
        """Log the row of a step, its wait for data included in the time it took."""
        try:
            self._newest = step
            meter = self._meter or self.meter()
            plain: Row = {}
            if type(metrics) is dict and NUMBERS.issuperset(map(type, metrics.values())):
                plain = metrics
            elif metrics:
                plain, rest = self._run.take_apart(metrics)
                if rest:  # what waits for a device, and media: goes its own way, and with every step
                    self._run.log_step(rest, step)
            row = meter.measure(step, plain, took, waited, tokens, samples)
            return None if row is None else self._run.log_step(row, step)
        except Exception as error:
            self._recorder.failed("end_step", error)
            return None

    def _leave(self) -> None:
        """At the end of the run: write what the last steps had to say."""
        if self._meter is not None and (row := self._meter.rest()) is not None:
            self._run.log_step(row, self._newest)


class OneStep:
    """One step: what is logged inside joins it; its time is logged at its end."""

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
    """Measures nothing; for a run that keeps nothing."""

    def plan(self, *, total: int | None, done: int) -> None:
        pass

    def measure(self, step: int | float, metrics: Row, *_: Any, **__: Any) -> Row | None:  # noqa: ARG002
        return None

    def rest(self) -> Row | None:
        return None

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        pass


def walk(
    run: Run,
    steps: Steps,
    items: Iterable[T],
    *,
    tokens: int | None,
    samples: int | None,
    total: int | None,
    start: int | None,
) -> Iterator[T]:
    """Yield the items, each inside a step of its own."""
    first = run.next_step if start is None else start
    if total is None and isinstance(items, Sized):
        try:
            total = len(items)
        except Exception:  # a DataLoader over an IterableDataset has __len__, and raises
            total = None
    if total is not None:
        steps.plan(first + total, first)
    source = iter(items)
    number = first
    while True:
        asked = perf_counter()
        with run.span("data"):
            try:
                item = next(source)
            except StopIteration:
                return
        steps.begin(number, counted=start is None)
        waited = perf_counter() - asked
        yield item
        steps.write(number, perf_counter() - asked, tokens=tokens, samples=samples, waited=waited)
        number += 1
