"""Writers of timelines."""

from __future__ import annotations

from pathlib import Path

from chiplog.frontends.tunix.perf.experimental.timeline import Timeline
from chiplog.frontends.tunix.perf.experimental.trace_writer import NoopTraceWriter, PerfettoTraceWriter
from tests.perfetto.processor import SLICES, ask


def test_a_call_appends_what_is_new() -> None:
    """The file has every span once, after each call."""
    timeline = Timeline("host-MainThread", 0.0)
    writer = PerfettoTraceWriter("traces")
    for step in range(2):
        timeline.start_span("x", float(step))
        timeline.stop_span(step + 0.5)
        writer.write_timelines({timeline.id: timeline})
        assert writer.path is not None
        (slices,) = ask(writer.path, SLICES)
        assert [one["dur"] for one in slices] == [5 * 10**8] * (step + 1)
    writer.close()


def test_a_writer_of_nothing_writes_nothing() -> None:
    """It takes the place of a real one."""
    NoopTraceWriter().write_timelines({"tpu0": Timeline("tpu0", 0.0)})
    assert list(Path().iterdir()) == []
