"""`kempnerforge.metrics.logger`, under the original's path: one module with two names, so patching either works."""

import sys

from chiplog.frontends.kempnerforge import logger as _module
from chiplog.frontends.kempnerforge.logger import *  # noqa: F403  # for type checkers

sys.modules[__name__] = _module
