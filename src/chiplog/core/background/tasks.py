"""The background tasks of a run: spans, device values, rules, jumps of the wall clock, saved rule state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from chiplog.core import messages, records
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.rows import RowWriter
from chiplog.core.engine.rules import CarriedState
from chiplog.core.engine.splitter import Splitter
from chiplog.core.engine.step_count import StepCount
from chiplog.core.protocols import DeviceValues, StepTimer
from chiplog.core.records import Row
from chiplog.core.tracing.tracer import Tracer

SPANS_EVERY = 0.5  # s
REMEMBER = 30.0  # s between two saves of what rules know
POLL_DEVICE = 0.02  # s between looks at values that are still on a device


class BackgroundTasks:
    """Short background tasks; a caller that cannot wait may run one directly."""

    def __init__(
        self,
        recorder: Recorder,
        rows: RowWriter,
        count: StepCount,
        *,
        tracer: Tracer,
        splitter: Splitter,
        waiting: DeviceValues | None,
        memory: CarriedState,
        remember: Callable[[Mapping[str, Any]], None] | None,
    ) -> None:
        self._recorder, self._rows, self._count = recorder, rows, count
        self._tracer, self._splitter = tracer, splitter
        self._fetching = threading.Lock()
        self._waiting, self._memory, self._remember = waiting, memory, remember
        self._times: StepTimer | None = None
        self._remembered = 0.0
        self.collecting: list[Callable[[], None]] = []  # what else is collected, and written in batches
        self.at_disk = False  # writing down what is to be remembered, on a disk that may not answer

    def tend(self) -> float:
        """All that is due; seconds until something is again."""
        self._tracer.tend()
        self.collected()
        self._rows.rules.tick(self._tracer.step)
        if (jump := self._recorder.clock.jump()) is not None:
            self._recorder.write(records.Clock, wall=jump[0], jump=jump[1])
        if time.monotonic() > self._remembered + REMEMBER:
            self._remembered = time.monotonic()
            self.remember()
        return self.device()

    def collected(self) -> None:
        """Write what has been collected since the last time."""
        self.spans()
        for write in self.collecting:
            write()

    def spans(self) -> None:
        """Write the spans that have finished, and the times of the steps they complete."""
        while (batch := self._tracer.take(self._recorder.clock.offset)) is not None:
            self._recorder.write(records.Spans, **batch)
            if self._times is not None:
                for step, row in self._times.feed(batch):
                    self._write_row(row, step)

    def time_steps(self, then: StepTimer | None) -> None:
        """Log what is left of the spans' times, and go on with others."""
        self.spans()
        before, self._times = self._times, then
        if before is not None:
            for step, row in before.rest():
                self._write_row(row, step)

    def end_spans(self, deadline: float) -> None:
        self._tracer.end_by_hand()
        self._tracer.settle(max(0.1, deadline - time.monotonic()))
        self.time_steps(None)
        if self._tracer.dropped:
            messages.say(f"{self._tracer.dropped:,} spans came faster than they could be kept, and are lost")
            self._recorder.write(records.Event, name="gap", data={"spans": self._tracer.dropped})

    def _write_row(self, row: Row, step: int | float) -> None:
        self._rows.write(row, step, self._count.is_counted(step))

    @property
    def on_device(self) -> int:
        """Rows whose values have not arrived."""
        return len(self._waiting) if self._waiting else 0

    def device(self) -> float:
        """Write the rows whose values have arrived; seconds until the next look."""
        if not self._waiting:
            return SPANS_EVERY
        if not self._fetching.acquire(
            blocking=False
        ):  # the background thread and the end of a run: one of them keeps the order
            return POLL_DEVICE
        try:
            for step, arrived in self._waiting.ready():
                if row := self._splitter.sort(arrived, step):
                    self._write_row(row, step)
        finally:
            self._fetching.release()
        return POLL_DEVICE if self.on_device else SPANS_EVERY

    def end_device(self, deadline: float) -> None:
        """Wait for the values that are still on a device; those that do not come are counted."""
        while self._waiting and time.monotonic() < deadline and self.device() < SPANS_EVERY:
            time.sleep(POLL_DEVICE)
        if rows := self.on_device:
            messages.say(f"{rows:,} rows had values still on a device when the run ended; those are lost")
            self._recorder.write(records.Event, name="gap", data={"device_rows": rows})

    def remember(self) -> None:
        """Write down what stages and rules know, for the next attempt."""
        if self._remember is not None and self._memory:
            self.at_disk = True
            try:
                self._remember(self._memory.state(self._tracer.step))
            finally:
                self.at_disk = False
