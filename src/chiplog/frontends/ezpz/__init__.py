"""The documented API of ezpz: change `import ezpz` to `from chiplog.frontends import ezpz`.

>>> from chiplog.frontends import ezpz
>>> history = ezpz.History(backends="csv", outdir="outputs")
>>> history.update({"loss": 0.42}, step=0)
'loss=0.420000'
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chiplog.frontends.ezpz import flops, history, tracker, utils
    from chiplog.frontends.ezpz.history import History, StopWatch
    from chiplog.frontends.ezpz.tracker import (
        CSVBackend,
        MLflowBackend,
        NullTracker,
        Tracker,
        TrackerBackend,
        WandbBackend,
        register_backend,
        setup_tracker,
    )
    from chiplog.frontends.ezpz.utils import (
        format_compact_summary,
        format_memory_summary,
        get_current_memory_allocated,
        get_current_memory_reserved,
        get_max_memory_allocated,
        get_max_memory_reserved,
        get_memory_metrics,
        get_rank,
        get_timestamp,
        get_world_size,
        reset_peak_memory_stats,
        setup_mlflow,
        setup_torch,
        setup_wandb,
        timeitlogit,
    )

_MODULES = ("flops", "history", "tracker", "utils")

__all__ = [
    "CSVBackend",
    "History",
    "MLflowBackend",
    "NullTracker",
    "StopWatch",
    "Tracker",
    "TrackerBackend",
    "WandbBackend",
    "flops",
    "format_compact_summary",
    "format_memory_summary",
    "get_current_memory_allocated",
    "get_current_memory_reserved",
    "get_max_memory_allocated",
    "get_max_memory_reserved",
    "get_memory_metrics",
    "get_rank",
    "get_timestamp",
    "get_world_size",
    "history",
    "register_backend",
    "reset_peak_memory_stats",
    "setup_mlflow",
    "setup_torch",
    "setup_tracker",
    "setup_wandb",
    "timeitlogit",
    "tracker",
    "utils",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return _load(name)
    for module in map(_load, ("utils", "tracker", "history") if name in __all__ else ()):
        if name in module.__all__:
            value: object = getattr(module, name)
            globals()[name] = value
            return value
    advice = "" if name.startswith("_") else f"; for what is not about metrics: import ezpz; ezpz.{name}"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _load(module: str) -> ModuleType:
    return import_module(f"{__name__}.{module}")
