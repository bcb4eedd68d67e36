"""The second version's export: where the time of every step went as metrics, and the timelines as a trace file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chiplog.core import messages
from chiplog.frontends.tunix.perf.experimental.timeline import Timeline
from chiplog.frontends.tunix.perf.experimental.trace_writer import DEFAULT_TRACE_DIR, PerfettoTraceWriter
from chiplog.frontends.tunix.perf.export import role_devices
from chiplog.frontends.tunix.perf.recorder import Reading
from chiplog.metrics import timing
from chiplog.metrics.step_values.reducers import MetricsT
from chiplog.store.spans.span import Span as Recorded

__all__ = ["DEFAULT_TRACE_DIR", "PerfMetricExport", "PerfMetricsExport", "log_metric_export_fn"]


class PerfMetricsExport:
    """An exporter with its trace file, `perfetto_trace_v2_<unix time>.pb` in `trace_dir`."""

    def __init__(
        self,
        *,
        enable_trace_writer: bool = True,
        trace_dir: str | None = None,
        role_to_devices: Mapping[str, Any] | None = None,
    ) -> None:
        self.writer = PerfettoTraceWriter(trace_dir, role_to_devices) if enable_trace_writer else None
        self._reading = Reading()
        self._closed = False

    @classmethod
    def from_cluster_config(
        cls, cluster_config: Any, enable_trace_writer: bool = True, trace_dir: str | None = None
    ) -> PerfMetricsExport:
        """With the devices of a cluster's roles, which the trace is ordered by."""
        return cls(
            enable_trace_writer=enable_trace_writer, trace_dir=trace_dir, role_to_devices=role_devices(cluster_config)
        )

    def export_metrics(self, timelines: Mapping[str, Timeline]) -> MetricsT:
        """What has come since the last call, as metrics under `perf/`; the file is written in the background."""
        if self._closed:
            messages.once(f"tunix closed {id(self)}", "a perf exporter was used after its shutdown; nothing is written")
            return {}
        spans = self._new(timelines)
        if self.writer is not None:
            self.writer.write(spans)
        return {name: (value, None) for name, value in timing.times(spans).items()} if spans else {}

    def write(self, timelines: Mapping[str, Timeline]) -> None:
        """Have what has come since the last call written, and nothing else."""
        if self.writer is not None and not self._closed:
            self.writer.write(self._new(timelines))

    def flush(self, timelines: Mapping[str, Timeline]) -> None:
        """Write what has come since, and have all of it in the file."""
        self.write(timelines)
        if self.writer is not None and not self._closed:
            self.writer.flush()

    def shutdown(self, wait: bool = True) -> None:
        """Complete the file; what is exported later is not written."""
        self._closed = True
        if self.writer is not None:
            self.writer.close(10.0 if wait else 0.0)

    def __enter__(self) -> PerfMetricsExport:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def _new(self, timelines: Mapping[str, Timeline]) -> Sequence[Recorded]:
        return [span for timeline in timelines.values() for span in self._reading.new(timeline.arrivals)]


PerfMetricExport = PerfMetricsExport  # as the documentation's text calls it


def log_metric_export_fn(timelines: Mapping[str, Timeline]) -> MetricsT:
    """Show the timelines on stderr, a line for each span; that there are none, too."""
    lines = [line for timeline in timelines.values() for line in repr(timeline).splitlines()]
    for line in lines or ["perf: there are no timelines"]:
        messages.say(line)
    return {}
