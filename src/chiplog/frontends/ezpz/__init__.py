"""The documented API of ezpz: change `import ezpz` to `from chiplog.frontends import ezpz`.

>>> from chiplog.frontends import ezpz
>>> history = ezpz.History(backends="csv", outdir="outputs")
>>> history.update({"loss": 0.42}, step=0)
'loss=0.420000'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_WHERE = {
    "History": "history",
    "StopWatch": "history",
    "CSVBackend": "tracker",
    "MLflowBackend": "tracker",
    "NullTracker": "tracker",
    "Tracker": "tracker",
    "TrackerBackend": "tracker",
    "WandbBackend": "tracker",
    "register_backend": "tracker",
    "setup_tracker": "tracker",
    "format_compact_summary": "utils",
    "format_memory_summary": "utils",
    "get_current_memory_allocated": "utils",
    "get_current_memory_reserved": "utils",
    "get_max_memory_allocated": "utils",
    "get_max_memory_reserved": "utils",
    "get_memory_metrics": "utils",
    "get_rank": "utils",
    "get_timestamp": "utils",
    "get_world_size": "utils",
    "reset_peak_memory_stats": "utils",
    "setup_mlflow": "utils",
    "setup_torch": "utils",
    "setup_wandb": "utils",
    "timeitlogit": "utils",
}
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


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _WHERE:
        value = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
        globals()[name] = value
        return value
    advice = (
        "" if name.startswith("_") else f"; what is not about metrics is still ezpz's own: import ezpz; ezpz.{name}"
    )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")


def __dir__() -> list[str]:
    return sorted(__all__)
