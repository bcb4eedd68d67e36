"""Calls to export functions, and the trace files that they write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from chiplog.core import messages
from chiplog.frontends.tunix.perf.at_exit import exit_waits
from chiplog.frontends.tunix.perf.shared_tracer import Reading, Recorded, Recording
from chiplog.frontends.tunix.perf.trace_files import TraceFiles
from chiplog.metrics.step_values.reducers import MetricsT
from chiplog.store.spans.span import StoredSpan

T = TypeVar("T", bound=Recorded)


class TraceExport:
    """Appends what has been recorded since the last call to a trace file; without a writer it only reads."""

    def __init__(self, writer: TraceFiles | None) -> None:
        self.writer = writer
        self._reading = Reading()

    def write(self, recorded: Recorded) -> list[StoredSpan]:
        """Write the new spans in the background, and return them."""
        spans = self._reading.new(recorded)
        if self.writer is not None:
            self.writer.write(spans)
        return spans

    def flush(self, recorded: Recorded) -> None:
        """Write the new spans, and wait until the file is complete."""
        self.write(recorded)
        if self.writer is not None:
            self.writer.flush()

    def close(self) -> None:
        """Close the file; what is written later starts another."""
        if self.writer is not None:
            self.writer.close()


class Traced(Generic[T]):
    """A user's export function plus a trace file."""

    def __init__(self, function: Callable[[T], MetricsT], writer: TraceFiles) -> None:
        self._function, self.trace = function, TraceExport(writer)

    def __call__(self, recorded: T) -> MetricsT:
        self.trace.write(recorded)
        return self._function(recorded)


def trace_of(export_fn: object) -> TraceExport | None:
    """Return the trace of an export function of ours; None for a user's function."""
    trace = getattr(getattr(export_fn, "__self__", export_fn), "trace", None)
    return trace if isinstance(trace, TraceExport) else None


class ExportCall(Generic[T]):
    """Calls an export function with what a tracer has recorded; if it fails, it is reported and training continues."""

    def __init__(
        self,
        name: str,
        function: Callable[[T], MetricsT] | None,
        recording: Recording,
        recorded: Callable[[], T],
    ) -> None:
        self.function = function
        self._name, self._recording, self._recorded = name, recording, recorded

    def __call__(self) -> MetricsT:
        """Return the metrics; does not wait for devices, which the end of the interpreter does."""
        if self.function is None:
            return {}
        busy = self._recording.busy
        metrics: MetricsT = {}
        try:
            metrics = self.function(self._recorded()) or {}
        except Exception as error:
            messages.once(
                f"tunix export {self._name} {error}",
                f"the {self._name} export function fails: {error!r}; training continues",
            )
        exit_waits.remove(self._write_late)
        if busy:
            exit_waits.add(self._write_late, devices=True)
        return metrics

    def _write_late(self, timeout: float) -> None:
        try:
            self._recording.wait_for_work(timeout)
            if (trace := trace_of(self.function)) is not None:
                trace.write(self._recorded())
        except Exception as error:
            messages.say(f"the last spans of devices are not in the trace: {error!r}")
