"""chiplog records training runs.

>>> import chiplog
>>> with chiplog.init(project="tiny-lm", config={"lr": 3e-4}) as run:
...     run.log({"train/loss": 2.5}, step=0)
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from chiplog.core import messages as _messages
from chiplog.core import run as _engine  # imported with the package, so that `init` loads less

if TYPE_CHECKING:
    from collections.abc import Callable

    from chiplog.assembly import attach, finish, init, log
    from chiplog.assembly.stored_runs import read, runs
    from chiplog.core.current_spans import span, stopwatch
    from chiplog.core.engine.shutdown import Delivery
    from chiplog.core.errors import ChiplogError
    from chiplog.core.run import Run
    from chiplog.core.values.media import Histogram, Image, Matrix, Text
    from chiplog.metrics.moe import Router
    from chiplog.runtime.devices.moe_counter import Routing
    from chiplog.sinks.adapters.backends import TrackerBackend
    from chiplog.sinks.registry import register_backend
    from chiplog.store.reader import Stored
    from chiplog.version import VERSION as __version__

    run: Run | None
    mirror: Callable[[str], None]

if "t" in getattr(sys, "abiflags", ""):  # as `sysconfig`'s Py_GIL_DISABLED says too, which takes longer to import
    _messages.once("free-threaded", "this is a free-threaded build of Python, on which chiplog has not been tested")

_WHERE = {
    "init": "assembly",
    "attach": "assembly",
    "log": "assembly",
    "finish": "assembly",
    "read": "assembly.stored_runs",
    "runs": "assembly.stored_runs",
    "ChiplogError": "core.errors",
    "Text": "core.values.media",
    "Histogram": "core.values.media",
    "Matrix": "core.values.media",
    "Image": "core.values.media",
    "Run": "core.run",
    "Router": "metrics.moe",
    "Routing": "runtime.devices.moe_counter",
    "span": "core.current_spans",
    "stopwatch": "core.current_spans",
    "Delivery": "core.engine.shutdown",
    "Stored": "store.reader",
    "TrackerBackend": "sinks.adapters.backends",
    "register_backend": "sinks.registry",
    "mirror": "compat.mirror",
}

__all__ = [
    "ChiplogError",
    "Delivery",
    "Histogram",
    "Image",
    "Matrix",
    "Router",
    "Routing",
    "Run",
    "Stored",
    "Text",
    "TrackerBackend",
    "__version__",
    "attach",
    "finish",
    "init",
    "log",
    "mirror",
    "read",
    "register_backend",
    "run",
    "runs",
    "span",
    "stopwatch",
]


def __getattr__(name: str) -> object:
    if name == "run":
        return _engine.current
    if name == "__version__":
        return import_module("chiplog.version").VERSION
    if name in _WHERE:
        value = getattr(import_module(f"chiplog.{_WHERE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'chiplog' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
