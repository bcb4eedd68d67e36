"""The metrics and tracing API of Tunix: to port a program, change `tunix` to `chiplog.frontends.tunix`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The names that Tunix has at its top level, with their modules; imported on first use.
NAMES = {
    "MetricsLogger": "sft.metrics_logger",
    "MetricsLoggerOptions": "sft.metrics_logger",
    "PeftTrainer": "sft.peft_trainer",
    "TrainingConfig": "sft.peft_trainer",
    "ClusterConfig": "rl.rl_cluster",
    "RLCluster": "rl.rl_cluster",
    "RLTrainingConfig": "rl.rl_cluster",
    "Role": "rl.rl_cluster",
    "PerfMetricsConfig": "perf.metrics",
    "PerfMetricsExport": "perf.export",
}


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{NAMES[name]}"), name)
