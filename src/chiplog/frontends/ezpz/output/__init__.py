"""What a history leaves: lines of JSON, datasets, plots and other files.

`datasets` and `plots` need numpy, xarray and matplotlib, so they are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chiplog.frontends.ezpz.output import datasets, plots

__all__ = ["datasets", "plots"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
