"""`sft.metrics_logger`, reached directly."""

from chiplog.frontends.tunix.sft.metrics_logger import (
    BackendFactory,
    CluBackend,
    LoggingBackend,
    MetricsLogger,
    MetricsLoggerOptions,
    Mode,
    TensorboardBackend,
    WandbBackend,
)

__all__ = [
    "BackendFactory",
    "CluBackend",
    "LoggingBackend",
    "MetricsLogger",
    "MetricsLoggerOptions",
    "Mode",
    "TensorboardBackend",
    "WandbBackend",
]
