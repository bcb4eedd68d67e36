"""The logger's names in Surogate's compiled module: `from chiplog.frontends.surogate import _surogate`."""

from chiplog.frontends.surogate.arguments import GPUUtilInfo
from chiplog.frontends.surogate.console import LogVerbosity
from chiplog.frontends.surogate.logger import TrainingRunLogger

__all__ = ["GPUUtilInfo", "LogVerbosity", "TrainingRunLogger"]
