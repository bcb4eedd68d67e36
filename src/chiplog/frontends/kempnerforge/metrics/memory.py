"""`kempnerforge.metrics.memory`, under the original's path: one module with two names, so patching either works."""

import sys

from chiplog.frontends.kempnerforge import memory as _module
from chiplog.frontends.kempnerforge.memory import *  # noqa: F403  # for type checkers

sys.modules[__name__] = _module
