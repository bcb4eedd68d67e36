"""Where the original's scripts import their sections from: the job, and of its sections the one of the metrics."""

from chiplog.frontends.kempnerforge.config.job import JobConfig
from chiplog.frontends.kempnerforge.config.metrics import MetricsConfig

__all__ = ["JobConfig", "MetricsConfig"]
