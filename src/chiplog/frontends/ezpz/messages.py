"""Lines that ezpz shows on its own: through the logger, or on stderr of rank 0 if logging is not set up."""

from __future__ import annotations

import logging
import os
import sys

from chiplog.runtime.ranks import detect

logger = logging.getLogger("chiplog.ezpz")


def info(text: str, *values: object) -> None:
    """Log a line of information; without any handler, print it to stderr, as ezpz's own logger does."""
    if logger.hasHandlers() or logger.disabled:
        logger.info(text, *values)
    elif detect.detect(os.environ).rank == 0:
        print(text % values, file=sys.stderr, flush=True)
