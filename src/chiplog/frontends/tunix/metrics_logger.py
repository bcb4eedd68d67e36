"""`sft.metrics_logger`, reached directly."""

from chiplog.frontends.tunix.sft.metrics_logger import LoggingBackend, MetricsLogger, MetricsLoggerOptions, Mode

__all__ = ["LoggingBackend", "MetricsLogger", "MetricsLoggerOptions", "Mode"]
