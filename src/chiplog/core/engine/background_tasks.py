"""The background tasks of a run: spans, device values, rules, jumps of the wall clock, saved rule state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from chiplog.core import messages, records
from chiplog.core.background.thread import IdlePause
from chiplog.core.device_hooks import DeviceHooks
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.rows import RowWriter
from chiplog.core.engine.rules import CarriedState
from chiplog.core.engine.step_count import StepCount
from chiplog.core.engine.value_splitter import Splitter
from chiplog.core.protocols import StepTimer
from chiplog.core.records import Number, Plain, Row
from chiplog.core.tracing.tracer import Tracer

SPANS_EVERY = 0.5  # s
SAVE_EVERY = 30.0  # s between two saves of the state of rules
POLL_DEVICE = 0.02  # s between polls of values that are still on a device


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
        machine: DeviceHooks,
        carried: CarriedState,
        save_state: Callable[[Mapping[str, Plain]], None] | None,
    ) -> None:
        self._recorder, self._rows, self._count = recorder, rows, count
        self._tracer, self._splitter, self._machine = tracer, splitter, machine
        self._fetching = threading.Lock()
        self._waiting, self._carried, self._save = machine.values, carried, save_state
        self._times: StepTimer | None = None
        self._saved = 0.0  # when the state was saved last
        self.collecting: list[Callable[[], None]] = []  # other collectors, each writes its batch
        self.saving = False  # whether the state is being saved, to a disk that may hang

    def run_due(self) -> float:
        """Run all that is due; return the seconds until the next time."""
        self._tracer.expire()
        busy = self.write_collected()
        self._rows.rules.tick(self._tracer.step)
        if (jump := self._recorder.clock.jump()) is not None:
            self._recorder.write(records.Clock, wall=jump[0], jump=jump[1])
        if time.monotonic() > self._saved + SAVE_EVERY:
            self._saved = time.monotonic()
            self.save_state()
        pause = self.write_arrived()
        return pause if busy or pause < SPANS_EVERY else IdlePause(pause)

    def write_collected(self) -> bool:
        """Write everything collected since the last time; whether there may soon be more."""
        spans = self.write_spans()
        for write in self.collecting:
            write()
        return spans or bool(self.collecting)

    def flush(self, *, fsync: bool) -> bool:
        """See `Run.flush`."""
        journal = self._recorder.journal
        if self._recorder.inert or journal is None:
            return True
        with self._recorder.guard("flush"):
            self.write_collected()
            return journal.flush(fsync=fsync)
        return False

    def write_spans(self) -> bool:
        """Write the spans that have finished, and the times of the steps they complete; whether there were any."""
        written = False
        while (batch := self._tracer.next_batch(self._recorder.clock.offset)) is not None:
            written = True
            self._recorder.write(records.SpansRecord, **batch)
            if self._times is not None:
                for step, row in self._times.feed(batch):
                    self._write_row(row, step)
        return written

    def time_steps(self, enabled: bool) -> None:
        """Log the times of each step's spans from now on, or stop; what the old timer still has is logged first."""
        self.write_spans()
        before, self._times = self._times, self._machine.times() if enabled and self._machine.times else None
        if before is not None:
            for step, row in before.rest():
                self._write_row(row, step)

    def end_spans(self, deadline: float) -> None:
        """End and write all spans; wait for devices until the deadline."""
        self._tracer.end_by_hand()
        self._tracer.wait_for_work(max(0.1, deadline - time.monotonic()))
        self.time_steps(False)
        if self._tracer.dropped:
            messages.say(f"dropped {self._tracer.dropped:,} spans: they arrived faster than they could be written")
            self._recorder.write(records.Event, name="gap", data={"spans": self._tracer.dropped})

    def _write_row(self, row: Row, step: Number) -> None:
        self._rows.write(row, step, self._count.is_counted(step))

    @property
    def on_device(self) -> int:
        """Rows whose values have not arrived."""
        return len(self._waiting) if self._waiting else 0

    def write_arrived(self) -> float:
        """Write the rows whose device values have arrived; return the seconds until the next poll."""
        if not self._waiting:
            return SPANS_EVERY
        if not self._fetching.acquire(blocking=False):  # another thread is writing: one alone keeps the order
            return POLL_DEVICE
        try:
            for step, arrived in self._waiting.ready():
                if row := self._splitter.split(arrived, step):
                    self._write_row(row, step)
        finally:
            self._fetching.release()
        return POLL_DEVICE if self.on_device else SPANS_EVERY

    def end_device(self, deadline: float) -> None:
        """Wait for the values that are still on a device; count the rows whose values do not arrive."""
        while self._waiting and time.monotonic() < deadline and self.write_arrived() < SPANS_EVERY:
            time.sleep(POLL_DEVICE)
        if rows := self.on_device:
            messages.say(f"{rows:,} rows had values still on a device when the run ended; those are lost")
            self._recorder.write(records.Event, name="gap", data={"device_rows": rows})

    def save_state(self) -> None:
        """Save the state of stages and rules for the next attempt."""
        if self._save is not None and self._carried:
            self.saving = True
            try:
                self._save(self._carried.state(self._tracer.step))
            finally:
                self.saving = False
