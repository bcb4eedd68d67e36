"""What a run wants done in the background: spans, values on a device, rules, the wall clock, its memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from chiplog.core import notes, records
from chiplog.core.clock import Clock
from chiplog.core.intake import Intake
from chiplog.core.protocols import Times, Waiting
from chiplog.core.records import Record, Row
from chiplog.core.rules import Memory, Rules
from chiplog.core.tracer import Tracer

SPANS_EVERY = 0.5  # s
REMEMBER = 30.0  # s between two times that what rules know is written down
POLL_DEVICE = 0.02  # s between looks at values that are still on a device


class Chores:
    """Each does a little, and may be called by the keeper or by who cannot wait for it."""

    def __init__(
        self,
        *,
        write: Callable[..., Record | None],
        write_row: Callable[[Row, int | float], object],
        clock: Clock,
        tracer: Tracer,
        rules: Rules,
        intake: Intake,
        waiting: Waiting | None,
        memory: Memory,
        remember: Callable[[Mapping[str, Any]], None] | None,
    ) -> None:
        self._write, self._write_row = write, write_row
        self._clock, self._tracer, self._rules, self._intake = clock, tracer, rules, intake
        self._fetching = threading.Lock()
        self._waiting, self._memory, self._remember = waiting, memory, remember
        self._times: Times | None = None
        self._remembered = 0.0
        self.collecting: list[Callable[[], None]] = []  # what else is collected, and written in batches
        self.at_disk = False  # writing down what is to be remembered, on a disk that may not answer

    def tend(self) -> float:
        """All that is due; seconds until something is again."""
        self._tracer.tend()
        self.collected()
        self._rules.tick(self._tracer.step)
        if (jump := self._clock.jump()) is not None:
            self._write(records.Clock, wall=jump[0], jump=jump[1])
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
        while (batch := self._tracer.take(self._clock.offset)) is not None:
            self._write(records.Spans, **batch)
            if self._times is not None:
                for step, row in self._times.feed(batch):
                    self._write_row(row, step)

    def time_steps(self, then: Times | None) -> None:
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
            notes.say(f"{self._tracer.dropped:,} spans came faster than they could be kept, and are lost")
            self._write(records.Event, name="gap", data={"spans": self._tracer.dropped})

    @property
    def on_device(self) -> int:
        """Rows whose values have not arrived."""
        return len(self._waiting) if self._waiting else 0

    def device(self) -> float:
        """Write the rows whose values have arrived; seconds until the next look."""
        if not self._waiting:
            return SPANS_EVERY
        if not self._fetching.acquire(blocking=False):  # the keeper and the end of a run: one of them keeps the order
            return POLL_DEVICE
        try:
            for step, arrived in self._waiting.ready():
                if row := self._intake.sort(arrived, step):
                    self._write_row(row, step)
        finally:
            self._fetching.release()
        return POLL_DEVICE if self.on_device else SPANS_EVERY

    def end_device(self, deadline: float) -> None:
        """Wait for the values that are still on a device; those that do not come are counted."""
        while self._waiting and time.monotonic() < deadline and self.device() < SPANS_EVERY:
            time.sleep(POLL_DEVICE)
        if rows := self.on_device:
            notes.say(f"{rows:,} rows had values still on a device when the run ended; those are lost")
            self._write(records.Event, name="gap", data={"device_rows": rows})

    def remember(self) -> None:
        """Write down what stages and rules know, for the next attempt."""
        if self._remember is not None and self._memory:
            self.at_disk = True
            try:
                self._remember(self._memory.state(self._tracer.step))
            finally:
                self.at_disk = False
