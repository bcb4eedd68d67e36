"""`kempnerforge.metrics`, under the original's path: replacing the prefix `kempnerforge` is enough."""

from chiplog.frontends.kempnerforge.logger import format_metrics, get_logger
from chiplog.frontends.kempnerforge.memory import (
    DeviceMemoryMonitor,
    format_memory_stats,
    get_memory_stats,
    get_memory_utilization,
    reset_peak_memory,
)
from chiplog.frontends.kempnerforge.metrics import logger, memory, mfu, tracker
from chiplog.frontends.kempnerforge.mfu import compute_mfu, estimate_model_flops_per_token, get_gpu_peak_tflops
from chiplog.frontends.kempnerforge.tracker import MetricsTracker, StepMetrics

__all__ = [
    "DeviceMemoryMonitor",
    "MetricsTracker",
    "StepMetrics",
    "compute_mfu",
    "estimate_model_flops_per_token",
    "format_memory_stats",
    "format_metrics",
    "get_gpu_peak_tflops",
    "get_logger",
    "get_memory_stats",
    "get_memory_utilization",
    "logger",
    "memory",
    "mfu",
    "reset_peak_memory",
    "tracker",
]
