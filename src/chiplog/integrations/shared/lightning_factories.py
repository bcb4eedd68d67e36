"""What Lightning's entry points call for every Trainer: a callback with `CHIPLOG_AUTO=1`, and nothing without it.

They are called in every environment that has chiplog installed, so they import nothing unless they are switched on.
"""

from __future__ import annotations

import os
from importlib import import_module

from chiplog.core.guarded import guarded

AUTO = "CHIPLOG_AUTO"
NONE: list[object] = []


@guarded("Lightning", NONE)
def lightning() -> list[object]:
    """The callbacks for a Trainer of `lightning`."""
    return _callbacks("lightning")


@guarded("Lightning", NONE)
def pytorch_lightning() -> list[object]:
    """The callbacks for a Trainer of `pytorch_lightning`."""
    return _callbacks("pytorch_lightning")


def _callbacks(package: str) -> list[object]:
    if os.environ.get(AUTO, "").lower() in ("", "0", "false", "no"):
        return []
    return [import_module(f"chiplog.integrations.{package}").ChiplogCallback()]
