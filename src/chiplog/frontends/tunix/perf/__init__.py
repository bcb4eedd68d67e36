"""Performance tracing: where the time of a step is spent, on hosts and devices, as metrics and as traces."""

from chiplog.frontends.tunix.perf import experimental, export, metrics
from chiplog.frontends.tunix.perf.metrics import (
    MetricsBuffer,
    MetricsT,
    PerfMetricsConfig,
    PerfMetricsOptions,
    PerfSpanQuery,
)

__all__ = [
    "MetricsBuffer",
    "MetricsT",
    "PerfMetricsConfig",
    "PerfMetricsOptions",
    "PerfSpanQuery",
    "experimental",
    "export",
    "metrics",
]
