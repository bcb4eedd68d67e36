"""pytorch_lightning: `Trainer(logger=ChiplogLogger())`, from `chiplog.integrations.pytorch_lightning`;
or no line, and `CHIPLOG_AUTO=1`.
"""

from __future__ import annotations

from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import Logger

from chiplog.integrations.shared.lightning_classes import LightningCallback, LightningLogger


class ChiplogLogger(LightningLogger, Logger):
    """Records what modules log: in a run passed in, the script's current run, or one of its own."""


class ChiplogCallback(LightningCallback, Callback):
    """Adds a `ChiplogLogger` to a Trainer that has none."""

    logger_class = ChiplogLogger
