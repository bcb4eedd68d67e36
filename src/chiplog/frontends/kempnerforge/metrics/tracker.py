"""`kempnerforge.metrics.tracker`, under the original's path: one module with two names, so patching either works."""

import sys

from chiplog.frontends.kempnerforge import tracker as _module
from chiplog.frontends.kempnerforge.tracker import *  # noqa: F403  # for type checkers

sys.modules[__name__] = _module
