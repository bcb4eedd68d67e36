"""Writers of timelines: any object with `write_timelines`, such as the writer of Perfetto traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from chiplog.frontends.tunix.perf import trace_files
from chiplog.frontends.tunix.perf.experimental.timeline import Timeline
from chiplog.frontends.tunix.perf.shared_tracer import Reading, device_names

DEFAULT_TRACE_DIR = trace_files.DIRECTORY


class TraceWriter(Protocol):
    """A destination for timelines."""

    def write_timelines(self, timelines: Mapping[str, Timeline]) -> None:
        """Write the spans that are new since the last call."""
        ...


class NoopTraceWriter:
    """Writes nothing."""

    def write_timelines(self, timelines: Mapping[str, Timeline]) -> None:
        pass


class PerfettoTraceWriter(trace_files.TraceFiles):
    """A trace for ui.perfetto.dev, `perfetto_trace_v2_<unix time>.pb`; an unusable directory is reported."""

    def __init__(self, trace_dir: str | None = None, role_to_devices: Mapping[str, object] | None = None) -> None:
        devices = {str(role): device_names(those) for role, those in (role_to_devices or {}).items()}
        super().__init__(trace_dir or None, "perfetto_trace_v2", devices)
        self._reading = Reading()

    def write_timelines(self, timelines: Mapping[str, Timeline]) -> None:
        """Append the spans that are new since the last call; returns when the file has them."""
        self.write(self._reading.new(timelines))
        self.flush()
