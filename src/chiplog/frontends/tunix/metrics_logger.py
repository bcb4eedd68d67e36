"""`sft.metrics_logger` under its short name."""

from chiplog.frontends.tunix.sft.metrics_logger import *  # noqa: F403
from chiplog.frontends.tunix.sft.metrics_logger import __all__  # noqa: F401
