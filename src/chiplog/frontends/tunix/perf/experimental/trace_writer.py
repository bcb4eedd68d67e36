"""Timelines to files: whatever has `write_timelines`, among it the writer of Perfetto traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from chiplog.frontends.tunix.perf import trace_files
from chiplog.frontends.tunix.perf.experimental.timeline import Timeline
from chiplog.frontends.tunix.perf.recorder import Reading, checked

DEFAULT_TRACE_DIR = trace_files.DIRECTORY


class TraceWriter(Protocol):
    """A destination of timelines."""

    def write_timelines(self, timelines: Mapping[str, Timeline]) -> None:
        """Write what has come since the last call."""
        ...


class NoopTraceWriter:
    """Writes nothing."""

    def write_timelines(self, timelines: Mapping[str, Timeline]) -> None:
        pass


class PerfettoTraceWriter(trace_files.TraceWriter):
    """A trace for ui.perfetto.dev, `perfetto_trace_v2_<unix time>.pb`; a directory that cannot be used is reported."""

    def __init__(self, trace_dir: str | None = None, role_to_devices: Mapping[str, Any] | None = None) -> None:
        devices = {str(role): checked(those) for role, those in (role_to_devices or {}).items()}
        super().__init__(trace_dir or None, "perfetto_trace_v2", devices)
        self._reading = Reading()

    def new(self, timelines: Mapping[str, Timeline]) -> list[Any]:
        """The spans that have come since the last time it asked."""
        return [span for timeline in timelines.values() for span in self._reading.new(timeline.arrivals)]

    def write_timelines(self, timelines: Mapping[str, Timeline]) -> None:
        """Append what has come since the last call; it is in the file when this returns."""
        self.write(self.new(timelines))
        self.flush()
