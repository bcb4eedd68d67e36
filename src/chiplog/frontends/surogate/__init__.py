"""The documented API of Surogate's training logger, with its file format, console and options.

>>> from chiplog.frontends.surogate import _surogate
>>> logger = _surogate.TrainingRunLogger("training.json")
>>> logger.log_step(step, epoch, tokens, duration_ms, norm, loss, lr)
"""

from chiplog.frontends.surogate import _surogate
from chiplog.frontends.surogate.arguments import GPUUtilInfo
from chiplog.frontends.surogate.console import LogVerbosity
from chiplog.frontends.surogate.context import training_logger_context
from chiplog.frontends.surogate.logger import TrainingRunLogger
from chiplog.frontends.surogate.moe_stats import RouterStats

__all__ = [
    "GPUUtilInfo",
    "LogVerbosity",
    "RouterStats",
    "TrainingRunLogger",
    "_surogate",
    "training_logger_context",
]
