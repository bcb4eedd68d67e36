"""A stand-in for TensorBoard's writer: `from chiplog.compat.tensorboard import SummaryWriter`.

The same calls as torch's class, kept by chiplog; nothing raises into a training loop (docs/integrations.md).
"""

from chiplog.compat.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]
