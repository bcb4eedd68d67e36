"""What the front ends cost compared with the least that could be done, and with what the originals were measured at."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.rows import Figure, interleaved, median, ratio, row
from chiplog.frontends.tunix.perf import trace
from chiplog.frontends.tunix.perf.experimental import tracer as v2
from chiplog.frontends.tunix.perf.experimental.export import PerfMetricsExport
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger, MetricsLoggerOptions

# The original's spans compared with a bare context manager, as they were measured: 4.3 and 5.2 µs, compared with 1.3.
ORIGINAL = {"v1": 3.3, "v2": 4.0}


@contextmanager
def _least(name: str) -> Iterator[None]:  # noqa: ARG001
    """A context manager that does nothing: what tracers of this kind are usually made of."""
    yield


def _span(open_: Callable[[str], Any]) -> Callable[[], None]:
    def call() -> None:
        with open_("x"):
            pass

    return call


@row
def tunix_spans() -> Iterator[Figure]:
    """A host span through the Tunix front end, compared with a bare context manager of the standard library."""
    old, new = trace.PerfTracer(), v2.PerfTracer()
    calls = {
        "floor": _span(_least),
        "v1": _span(old.span),
        "v2": _span(new.span),
        "none": _span(v2.NoopTracer().span),
    }
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(15):
        for name, times in interleaved(calls, calls_each=2000, rounds=1).items():
            taken[name] += times
        for tracer in (old, new):
            tracer.synchronize()  # what a run does in the background
    for name, theirs in ORIGINAL.items():
        yield Figure(f"{name}: a span", median(taken[name]), "µs")
        times = ratio(taken, name, "floor")
        yield Figure(
            f"{name}: compared with a bare context manager", times, "×", bar=theirs, note=f"the original: {theirs} ×"
        )
    yield Figure("a tracer of nothing", median(taken["none"]), "µs", bar=1.5)


@row
def tunix_trace() -> Iterator[Figure]:
    """A trace of 100 steps with 1,000 spans each, written step by step: CPU of everything but the spans themselves."""
    with tempfile.TemporaryDirectory() as folder:
        exporter = PerfMetricsExport(trace_dir=folder)
        tracer = v2.PerfTracer(export_fn=exporter.export_metrics)
        spent: list[float] = []
        caller = 0.0
        for _ in range(100):
            for _ in range(1000):
                with tracer.span("x"):
                    pass
            began, mine = time.process_time(), time.thread_time()
            tracer.export()
            caller += time.thread_time() - mine
            assert exporter.writer is not None
            exporter.writer.flush(60)
            spent.append(time.process_time() - began)
        exporter.shutdown()
        size = next(Path(folder).iterdir()).stat().st_size
    yield Figure("export and write 100 × 1,000 spans", sum(spent), "s CPU", bar=2.0, note="the original: 90 s")
    yield Figure("of which on the caller's thread", caller, "s CPU")
    yield Figure("the last ten steps compared with the first", sum(spent[-10:]) / sum(spent[:10]), "×", bar=1.5)
    yield Figure("size", size / 1e6, "MB", bar=5.0)


@row
def tunix_logger() -> Iterator[Figure]:
    """`MetricsLogger.log` of one value, with a backend that does nothing."""

    class Nothing:
        def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
            pass

        def close(self) -> None:
            pass

    with tempfile.TemporaryDirectory() as folder:
        here = Path.cwd()
        os.chdir(folder)
        try:
            logger = MetricsLogger(MetricsLoggerOptions("logs", backend_factories=[Nothing]))
            alone = MetricsLogger()
            taken = interleaved(
                {
                    "durable": lambda: logger.log("p", "loss", 0.5, "train", 1),
                    "history": lambda: alone.log("p", "loss", 0.5, "train", 1),
                    "mean": lambda: alone.get_metric("p", "loss", "train"),
                },
                calls_each=1000,
                rounds=15,
            )
            logger.close()
        finally:
            os.chdir(here)
    yield Figure("on disk before it returns", median(taken["durable"]), "µs", note="the original: 2.1 µs, in memory")
    yield Figure("the history alone", median(taken["history"]), "µs")
    yield Figure(
        "the mean of a long history", median(taken["mean"]), "µs", note="the original: 150 ms at 100,000 values"
    )
