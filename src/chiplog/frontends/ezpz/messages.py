"""Lines that ezpz shows by itself: through the logger, and on rank 0 also where nobody has set up logging."""

from __future__ import annotations

import logging
import os
import sys

from chiplog.runtime.ranks import detect

logger = logging.getLogger("chiplog.ezpz")


def say(text: str, *values: object) -> None:
    """Log a line of information; without any handler it goes to stderr, as ezpz's own logger would have it."""
    if logger.hasHandlers() or logger.disabled:
        logger.info(text, *values)
    elif detect.detect(os.environ).rank == 0:
        print(text % values, file=sys.stderr, flush=True)
