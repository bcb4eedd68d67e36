"""The trace file of the first version, written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chiplog.frontends.tunix.perf import perfetto, trace
from chiplog.frontends.tunix.perf.export import PerfMetricsExport
from chiplog.frontends.tunix.perf.shared_tracer import Recording
from chiplog.frontends.tunix.perf.span import Span as OldSpan
from chiplog.frontends.tunix.perf.span import SpanGroup
from tests.perfetto.processor import SLICES, ask


def test_the_first_versions_trace_is_written_by_hand(tmp_path: Path) -> None:
    """Groups of the host, and what each role's devices did, each on its track; the writer is taken by an exporter too."""
    root = SpanGroup("global_step", begin=1.0, end=9.0)
    inner = SpanGroup("mini_batch_step", root, 2.0, 8.0)
    inner.inner.append(OldSpan("rollout", 2.0, 3.0))
    writer = perfetto.PerfettoTraceWriter(str(tmp_path / "traces"))
    writer.log_trace([root], [OldSpan("rollout", 2.0, 4.0)], [OldSpan("refer_inference", 4.0, 5.0)], [inner])
    assert writer.path is not None and writer.path.name.startswith("perfetto_trace_1")
    (slices,) = ask(writer.path, SLICES)
    assert sorted((one["track"], one["name"], one["dur"] // 10**9, one["depth"]) for one in slices) == [
        ("Actor", "mini_batch_step", 6, 0),
        ("Actor", "rollout", 1, 1),
        ("Main", "global_step", 8, 0),
        ("Main", "mini_batch_step", 6, 1),
        ("Main", "rollout", 1, 2),
        ("Reference", "refer_inference", 1, 0),
        ("Rollout", "rollout", 2, 0),
    ]
    function: Any = PerfMetricsExport.from_role_to_devices({}, writer)
    old = trace.PerfTracer(export_fn=function, recording=Recording())
    with old.span_group("global_step"):
        pass
    assert "perf/global_step_time" in old.export() and function.writer is writer
