"""The config, as far as metrics need it: `kempnerforge.config`, `.config.metrics` and `.config.schema`."""

from chiplog.frontends.kempnerforge.config.job import JobConfig
from chiplog.frontends.kempnerforge.config.metrics import MetricsConfig

__all__ = ["JobConfig", "MetricsConfig"]
