"""The export of the second version: where the time of every step went, and a trace file of the timelines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chiplog.core import messages
from chiplog.frontends.tunix.perf.experimental.timeline import Timeline
from chiplog.frontends.tunix.perf.experimental.trace_writer import DEFAULT_TRACE_DIR, PerfettoTraceWriter
from chiplog.frontends.tunix.perf.export import role_devices
from chiplog.frontends.tunix.perf.trace_export import TraceExport
from chiplog.metrics import step_spans
from chiplog.metrics.step_values.reducers import MetricsT

__all__ = ["DEFAULT_TRACE_DIR", "PerfMetricExport", "PerfMetricsExport", "log_metric_export_fn"]


class PerfMetricsExport:
    """An exporter with a trace file, `perfetto_trace_v2_<unix time>.pb` in `trace_dir`."""

    def __init__(
        self,
        *,
        enable_trace_writer: bool = True,
        trace_dir: str | None = None,
        role_to_devices: Mapping[str, object] | None = None,
    ) -> None:
        self.writer = PerfettoTraceWriter(trace_dir, role_to_devices) if enable_trace_writer else None
        self.trace = TraceExport(self.writer)
        self._closed = False

    @classmethod
    def from_cluster_config(
        cls, cluster_config: Any, enable_trace_writer: bool = True, trace_dir: str | None = None
    ) -> PerfMetricsExport:
        """Create an exporter with the devices of a cluster's roles, which order the trace."""
        return cls(
            enable_trace_writer=enable_trace_writer, trace_dir=trace_dir, role_to_devices=role_devices(cluster_config)
        )

    def export_metrics(self, timelines: Mapping[str, Timeline]) -> MetricsT:
        """Return metrics of the spans since the last call, under `perf/`; the file is written in the background."""
        if self._closed:
            messages.once(f"tunix closed {id(self)}", "a perf exporter was used after its shutdown; nothing is written")
            return {}
        spans = self.trace.write(timelines)
        return {name: (value, None) for name, value in step_spans.times(spans).items()} if spans else {}

    def shutdown(self, wait: bool = True) -> None:
        """Complete the file; later exports write nothing."""
        self._closed = True
        self.trace.writer = None
        if self.writer is not None:
            self.writer.close(10.0 if wait else 0.0)

    def __enter__(self) -> PerfMetricsExport:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


PerfMetricExport = PerfMetricsExport  # its name in the text of Tunix's documentation


def log_metric_export_fn(timelines: Mapping[str, Timeline]) -> MetricsT:
    """Print the timelines on stderr, one line per span."""
    lines = [line for timeline in timelines.values() for line in repr(timeline).splitlines()]
    for line in lines or ["perf: there are no timelines"]:
        messages.say(line)
    return {}
