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
        NullTracker,
        Tracker,
        TrackerBackend,
        register_backend,
        setup_tracker,
    )
    from chiplog.frontends.ezpz.utils import (
        format_compact_summary,
        format_memory_summary,
        get_memory_metrics,
        get_rank,
        get_world_size,
        setup_mlflow,
        setup_torch,
        setup_wandb,
    )

_WHERE = {
    "History": "history",
    "StopWatch": "history",
    "NullTracker": "tracker",
    "Tracker": "tracker",
    "TrackerBackend": "tracker",
    "register_backend": "tracker",
    "setup_tracker": "tracker",
    "format_compact_summary": "utils",
    "format_memory_summary": "utils",
    "get_memory_metrics": "utils",
    "get_rank": "utils",
    "get_world_size": "utils",
    "setup_mlflow": "utils",
    "setup_torch": "utils",
    "setup_wandb": "utils",
}
_MODULES = ("flops", "history", "tracker", "utils")

__all__ = [
    "History",
    "NullTracker",
    "StopWatch",
    "Tracker",
    "TrackerBackend",
    "flops",
    "format_compact_summary",
    "format_memory_summary",
    "get_memory_metrics",
    "get_rank",
    "get_world_size",
    "history",
    "register_backend",
    "setup_mlflow",
    "setup_torch",
    "setup_tracker",
    "setup_wandb",
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
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
