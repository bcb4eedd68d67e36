"""The parts of the config that metrics need: `kempnerforge.config`, `.config.metrics` and `.config.schema`."""

from chiplog.frontends.kempnerforge.config.job import JobConfig
from chiplog.frontends.kempnerforge.config.metrics import MetricsConfig

__all__ = ["JobConfig", "MetricsConfig"]
