"""Which step a row belongs to: the one the caller passes, the newest, or the next of a count.

Until a caller passes a step, each `log` is its own step; from then on, `log` without a step joins the newest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from chiplog.core.engine.recorder import Recorder
from chiplog.core.errors import BadStep
from chiplog.core.records import Number
from chiplog.core.tracing.tracer import Tracer
from chiplog.core.values import convert


class StepCount:
    """The steps of one run. The newest step is the tracer's, so that spans have it too."""

    def __init__(self, recorder: Recorder, tracer: Tracer, first: int = 0) -> None:
        self._recorder, self._tracer = recorder, tracer
        if first > 0:
            tracer.step = first - 1  # an evaluation before the first row belongs to the last step before
        self.explicit = False  # whether a caller has passed a step
        self.metered_devices: int | None = None  # whose tokens a step counts; None if no step was measured
        self._auto: Iterator[int] | None = count(first)
        self._counted = (first, first)  # the range of the counted steps, once there are explicit ones

    def resolve(self, step: Number | None) -> tuple[Number, bool]:
        """The step of a row, and whether it was counted."""
        counted = False
        if step is None:
            if self._auto is None:
                step = self._tracer.step
                begin, end = self._counted
                counted = begin <= step < end
            else:
                step, counted = next(self._auto), True
        else:
            if self._auto is not None:
                self._end_count()
            if type(step) is not int:
                step = self.number(step)
        self._tracer.step = step
        return step, counted

    def join(self, step: Number | None) -> Number:
        """The step of something that is not a row: the one passed, or the newest."""
        if step is None:
            return self._tracer.step
        return step if type(step) is int else self.number(step)

    def begin(self, step: int | None = None, *, counted: bool = False) -> int:
        """Start a step, by default the next: rows logged without a step join it. `counted` if no user chose it."""
        number = self.next if step is None else step
        if self._auto is not None:
            self._end_count()
        if step is None or counted:
            begin, end = self._counted
            self._counted = (begin if end == number else number, number + 1)
        self._tracer.step = number
        return number

    def is_counted(self, step: Number) -> bool:
        """Whether we counted this step, and no caller passed it."""
        begin, end = self._counted
        return step >= begin if self._auto is not None else begin <= step < end

    def joins(self, step: Number) -> bool:
        """Whether a row without a step belongs to this one, and is counted."""
        return self._tracer.step == step and self.is_counted(step)

    @property
    def newest(self) -> Number:
        return self._tracer.step

    @property
    def next(self) -> int:
        """The step after the newest."""
        if self._auto is not None:
            return int(repr(self._auto)[len("count(") : -1])  # reads the count without advancing it
        newest = self._tracer.step
        return int(newest) + 1 if newest - newest == 0 else 0  # a step that is not finite has no successor

    def number(self, step: object) -> Number:
        """A step of any type as a number; the newest step if it is not a finite number."""
        number = convert.number(step)
        if number is None or number - number != 0:
            error = BadStep(f"a step is a finite number, not {step!r}; the newest step, {self.newest}, is used")
            self._recorder.failed("log", error)
            return self.newest
        return int(number) if isinstance(number, bool) else number

    def _end_count(self) -> None:
        auto, self._auto = self._auto, None
        if auto is not None:
            self._counted = (self._counted[0], next(auto))
        self.explicit = True
