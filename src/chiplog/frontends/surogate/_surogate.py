"""The logger's names in Surogate's compiled module: `from chiplog.frontends.surogate import _surogate`."""

from chiplog.frontends.surogate.console import LogVerbosity
from chiplog.frontends.surogate.logger import TrainingRunLogger
from chiplog.frontends.surogate.parsing import GPUUtilInfo

__all__ = ["GPUUtilInfo", "LogVerbosity", "TrainingRunLogger"]
