"""The module from which the original's scripts import sections: the job, and its section of the metrics."""

from chiplog.frontends.kempnerforge.config.job import JobConfig
from chiplog.frontends.kempnerforge.config.metrics import MetricsConfig

__all__ = ["JobConfig", "MetricsConfig"]
