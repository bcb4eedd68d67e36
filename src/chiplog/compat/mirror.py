"""Keeps a local run next to a tracker that works as before: `chiplog.mirror("wandb")`."""

from __future__ import annotations

from importlib import import_module

from chiplog.core.errors import BadSetting

TRACKERS = ("wandb",)


def mirror(tracker: str) -> None:
    """Record what the client of a tracker is given from now on, in a run of chiplog of the same name.

    The client's own call runs first, and what it returns or raises is what the script sees. Whatever fails here is
    reported once.
    """
    if tracker not in TRACKERS:
        raise BadSetting(f"no mirror of {tracker!r}; available: {', '.join(TRACKERS)}")
    import_module(f"chiplog.compat.{tracker}.mirror").start()
