"""The documented API of KempnerForge's metrics: the same names, signatures and lines; only the import changes.

>>> from chiplog.frontends.kempnerforge import MetricsTracker

The modules also have the original's names: `tracker`, `mfu`, `memory`, `logger`. See docs/frontends/kempnerforge.md.
"""

from chiplog.frontends.kempnerforge.backends import TensorBoardBackend, WandBBackend
from chiplog.frontends.kempnerforge.config import MetricsConfig
from chiplog.frontends.kempnerforge.logger import format_metrics, get_logger
from chiplog.frontends.kempnerforge.memory import (
    DeviceMemoryMonitor,
    format_memory_stats,
    get_memory_stats,
    get_memory_utilization,
    reset_peak_memory,
)
from chiplog.frontends.kempnerforge.mfu import compute_mfu, estimate_model_flops_per_token, get_gpu_peak_tflops
from chiplog.frontends.kempnerforge.tracker import MetricsTracker, StepMetrics

__all__ = [
    "DeviceMemoryMonitor",
    "MetricsConfig",
    "MetricsTracker",
    "StepMetrics",
    "TensorBoardBackend",
    "WandBBackend",
    "compute_mfu",
    "estimate_model_flops_per_token",
    "format_memory_stats",
    "format_metrics",
    "get_gpu_peak_tflops",
    "get_logger",
    "get_memory_stats",
    "get_memory_utilization",
    "reset_peak_memory",
]
