"""What the original has under its module paths, each of it used as its users do."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from chiplog.frontends import tunix
from chiplog.frontends.tunix.perf import perfetto, trace
from chiplog.frontends.tunix.perf.experimental import export, timeline, trace_writer, tracer
from chiplog.frontends.tunix.perf.metrics import MetricsBuffer
from chiplog.frontends.tunix.perf.shared_tracer import Recording
from chiplog.frontends.tunix.rl import rl_cluster


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("perf.experimental.timeline", ["Timeline", "AsyncTimeline", "BatchAsyncTimelines", "Span"]),
        ("perf.experimental.timeline_utils", ["sequentialize_overlapping_spans", "generate_queued_timeline_id"]),
        ("perf.experimental.trace_writer", ["TraceWriter", "NoopTraceWriter", "PerfettoTraceWriter"]),
        ("perf.experimental.export", ["DEFAULT_TRACE_DIR", "PerfMetricsExport", "log_metric_export_fn"]),
        ("perf.experimental.tracer", ["generate_host_timeline_id", "generate_device_timeline_id"]),
        ("perf.perfetto", ["PerfettoTraceWriter", "DEFAULT_TRACE_DIR", "DEFAULT_EXPORT_DIR"]),
        ("perf.metrics", ["MetricsBuffer", "MetricsT", "PerfMetricsConfig", "PerfMetricsOptions", "PerfSpanQuery"]),
        ("sft.system_metrics_calculator", ["measure_tflops_per_step", "approximate_tflops_per_second"]),
        ("sft.progress_bar", ["ProgressBar"]),
    ],
)
def test_the_names_are_there(module: str, names: list[str]) -> None:
    """Under the path that the original has."""
    found = import_module(f"chiplog.frontends.tunix.{module}")
    assert [name for name in names if not hasattr(found, name)] == []


def test_what_is_at_the_top_is_what_the_modules_have() -> None:
    """For `from tunix import MetricsLoggerOptions`; what is not there is an AttributeError."""
    for name, module in tunix.NAMES.items():
        assert getattr(tunix, name) is getattr(import_module(f"chiplog.frontends.tunix.{module}"), name)
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        _ = tunix.Nobody


def test_traces_go_where_the_original_puts_them() -> None:
    """By one name in all modules; a tracer's timelines are those of the module of timelines."""
    for module in (export, trace_writer, perfetto):
        assert module.DEFAULT_TRACE_DIR == "/tmp/perf_traces"
    assert tracer.Timeline is timeline.Timeline and rl_cluster.MetricsBuffer is MetricsBuffer
    assert MetricsBuffer(3) == MetricsBuffer(global_steps=3, metrics={}, mode="train")


# -- keywords ----------------------------------------------------------------------------------------------------------


def test_the_keywords_are_the_originals() -> None:
    """Of the n-th group, and of the function that gets what was buffered."""
    old = trace.PerfTracer(recording=Recording(zero=0))
    for _ in range(3):
        with old.span_group("a"):
            pass
    assert len(trace.query(old).main().nth_group(name="a", index=2).get()) == 1
    seen: list[MetricsBuffer] = []
    with rl_cluster.RLCluster(cluster_config=rl_cluster.ClusterConfig()) as cluster:
        cluster.with_external_metrics_logger(external_metrics_logger=seen.append)
        cluster.buffer_metrics({"x": (1.0, np.mean)})
        cluster.buffer_metrics({"x": (2.0, np.mean)})
    assert seen == [MetricsBuffer(0, {"x": ([1.0, 2.0], np.mean)}, "train")]


# -- timelines by hand -------------------------------------------------------------------------------------------------


# -- operations --------------------------------------------------------------------------------------------------------


# -- the bar -----------------------------------------------------------------------------------------------------------
