"""W&B's own client in this process, for scripts that call `wandb.log` or `wandb.save` beside the tracker.

Its rows have the training step as W&B's step, as the original's have: what a script logs at the same step joins them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from chiplog.core import settings
from chiplog.core.errors import ChiplogError
from chiplog.sinks.wandb.login import is_silent

INIT = 30.0  # s that the first row may wait for W&B; then the relay process takes over
FINISH = 30.0  # s for what is left at the end, files included


def is_wanted() -> bool:
    """Whether the script uses W&B itself: it has imported the package, or `relay = "thread"` asks for it."""
    return is_imported() or settings.load({}, os.environ, Path.cwd()).relay == "thread"


def is_imported() -> bool:
    return is_stand_in() or hasattr(sys.modules.get("wandb"), "init")


def is_stand_in() -> bool:
    """Whether somebody has put a module of their own in W&B's place, as unit tests do: no import made it."""
    module = sys.modules.get("wandb")
    return module is not None and getattr(module, "__spec__", None) is None


class Client:
    """One run of W&B, which is also `wandb.run`; `native` is W&B's own object."""

    def __init__(self, native: Any) -> None:
        self.native = native
        self.id: Any = getattr(native, "id", None)
        self._module = sys.modules["wandb"] if is_stand_in() else None

    def log(self, metrics: Mapping[str, Any], step: int) -> int | None:
        """One row, at the training step; the first step that W&B still takes, where this one lies behind it.

        W&B keeps the rows that it has: one that lies behind its newest is not sent.
        """
        if self._module is not None:
            self._module.log(dict(metrics), step=step)
            return None
        first = max(self.native.step, self.native.starting_step)
        if step < first:
            return int(first)
        self.native.log(dict(metrics), step=step)
        return None

    def close(self) -> None:
        """Send what is left: rows, and files that were saved with `wandb.save`."""
        (self._module or self.native).finish()


def begin(project: str, name: str | None, run_id: str, known_id: str) -> Client:
    """Begin a run, or go on with the one of `known_id`; raises when W&B cannot. A fresh one gets `run_id`."""
    import wandb

    if is_stand_in():
        known = {"id": known_id} if known_id else {}
        return Client(wandb.init(project=project, name=name, resume="allow", **known))
    if not is_silent(os.environ):  # otherwise W&B would ask for a key, and wait for the answer
        raise ChiplogError("W&B has no key to log in with; set WANDB_API_KEY, or WANDB_MODE=offline")
    began = monotonic()
    chosen = _usable(known_id, project) if known_id else run_id
    limits: dict[str, Any] = {"finish_timeout": FINISH}
    if "WANDB_INIT_TIMEOUT" not in os.environ:
        limits["init_timeout"] = max(1.0, INIT - (monotonic() - began))
    return Client(wandb.init(project=project, name=name, id=chosen, resume="allow", settings=wandb.Settings(**limits)))


def _usable(run_id: str, project: str) -> str:
    """The id to go on with: another one where the run was deleted, which W&B's client would find out in 30 s."""
    import wandb

    from chiplog.sinks.wandb.server_rows import RunQueries, next_id

    try:
        known = wandb.setup().settings
        if known.mode not in (None, "online") or not wandb.login(prompt=False, verify=False):
            return run_id
        desk, chosen = RunQueries(wandb.setup().settings), run_id
        while not desk.rows(chosen, project, known.entity) and desk.is_deleted(chosen, project, known.entity):
            chosen = next_id(chosen, run_id)
        return chosen
    except Exception:  # a W&B that does not answer: its client says so, in its own words
        return run_id
