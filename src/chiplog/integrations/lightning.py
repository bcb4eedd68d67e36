"""Lightning, Fabric: `Trainer(logger=ChiplogLogger())`, from `chiplog.integrations.lightning`.

Or no line at all: with `CHIPLOG_AUTO=1`, every Trainer is recorded.
"""

from __future__ import annotations

from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

from chiplog.integrations.shared.lightning_classes import LightningCallback, LightningLogger


class ChiplogLogger(LightningLogger, Logger):
    """Records what modules log: in a run passed in, the script's current run, or one of its own."""


class ChiplogCallback(LightningCallback, Callback):
    """Adds a `ChiplogLogger` to a Trainer that has none."""

    logger_class = ChiplogLogger
