"""TensorBoard: `from chiplog.compat.tensorboard import SummaryWriter`, or `chiplog run --as tensorboard -- COMMAND`.

A stand-in with the same calls as torch's class; nothing raises into a training loop (docs/integrations.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chiplog.compat.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]


def __getattr__(name: str) -> object:
    """The writer, imported when it is used: `chiplog run --as tensorboard` prepares every Python that starts."""
    if name != "SummaryWriter":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.writer").SummaryWriter
