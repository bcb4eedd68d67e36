"""Export functions, and the trace files beside them."""

from __future__ import annotations

from pathlib import Path

from chiplog.frontends.tunix.perf import trace
from chiplog.frontends.tunix.perf.experimental.export import PerfMetricsExport as ExportV2
from chiplog.frontends.tunix.perf.export import PerfMetricsExport
from chiplog.frontends.tunix.perf.metrics import MetricsT, PerfSpanQuery
from chiplog.frontends.tunix.perf.trace_export import Traced, TraceExport, trace_of
from chiplog.frontends.tunix.perf.trace_files import TraceFiles
from tests.frontends.tunix.devices import tracer_of


def users(query: PerfSpanQuery) -> MetricsT:
    return {"perf/steps": (len(query().main().all_groups("step").get()), None)}


def test_only_functions_of_ours_have_a_trace() -> None:
    """Also those whose trace file is switched off; a user's function has none."""
    first, second = PerfMetricsExport.from_role_to_devices({}), ExportV2(enable_trace_writer=False).export_metrics
    for ours in (first, second, Traced(users, TraceFiles("traces"))):
        assert isinstance(trace_of(ours), TraceExport)
    assert trace_of(users) is None and trace_of(None) is None


def test_a_users_function_gets_a_file_beside_it() -> None:
    """It is called as it would be alone, and the spans are in the file."""
    traced = Traced(users, TraceFiles("traces"))
    tracer = tracer_of(export_fn=traced)
    with tracer.span_group("step"):
        pass
    assert tracer.export() == {"perf/steps": (1, None)}
    traced.trace.flush(trace.query(tracer))
    traced.trace.close()
    (path,) = Path("traces").iterdir()
    assert b"step" in path.read_bytes()


def test_each_span_is_new_once() -> None:
    """Without a writer too, since metrics are computed from what is new."""
    tracer, export = tracer_of(), TraceExport(None)
    for name in ("a", "b"):
        with tracer.span(name):
            pass
        assert [span.name for span in export.write(trace.query(tracer))] == [name]
    assert export.write(trace.query(tracer)) == []
