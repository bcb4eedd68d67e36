"""W&B's own client in this process, for scripts that call `wandb.log` or `wandb.save` as well as the tracker.

Its rows have the training step as W&B's step, like the original's, so that what a script logs at a step joins them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from chiplog import ChiplogError
from chiplog.core import settings
from chiplog.sinks.wandb.login import is_silent

START = 30.0  # s that the first row may wait for W&B; then the relay process takes over
FINISH = 30.0  # s to send the rest at the end, including files


def is_wanted() -> bool:
    """Whether the script uses W&B itself: it has imported the package, or `relay = "thread"` asks for it."""
    return is_imported() or settings.load({}, os.environ, Path.cwd()).relay == "thread"


def is_imported() -> bool:
    return is_stand_in() or hasattr(sys.modules.get("wandb"), "init")


def is_stand_in() -> bool:
    """Whether `wandb` is a stand-in, as unit tests use: a module that was not imported."""
    module = sys.modules.get("wandb")
    return module is not None and getattr(module, "__spec__", None) is None


class Client:
    """One run of W&B, which is also `wandb.run`; `native` is W&B's own object."""

    def __init__(self, native: Any) -> None:
        self.native = native
        self.id: str | None = getattr(native, "id", None)
        self._module = sys.modules["wandb"] if is_stand_in() else None

    @property
    def sends(self) -> bool:
        """Whether it sends rows to a server, which may lack some if this process is killed."""
        return self._module is None and not getattr(self.native, "offline", True) and not self.native.disabled

    def log(self, metrics: Mapping[str, object], step: int) -> int | None:
        """Send a row at its training step.

        W&B accepts no step before its newest: such a row is not sent, and the first step that it accepts is returned.
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
        """Send the remaining rows, and the files of `wandb.save`."""
        (self._module or self.native).finish()


def start(project: str, name: str | None, new_id: str, known_id: str) -> Client:
    """Start a run with `new_id`, or resume that of `known_id`; raises if W&B cannot."""
    import wandb

    if is_stand_in():
        resumed = {"id": known_id} if known_id else {}
        return Client(wandb.init(project=project, name=name, resume="allow", **resumed))
    if not is_silent(os.environ):  # otherwise W&B would ask for a key, and wait for the answer
        raise ChiplogError("W&B has no key to log in with; set WANDB_API_KEY, or WANDB_MODE=offline")
    started = monotonic()
    chosen = _usable(known_id, project) if known_id else new_id
    limits: dict[str, Any] = {"finish_timeout": FINISH}
    if "WANDB_INIT_TIMEOUT" not in os.environ:
        limits["init_timeout"] = max(1.0, START - (monotonic() - started))
    return Client(wandb.init(project=project, name=name, id=chosen, resume="allow", settings=wandb.Settings(**limits)))


def _usable(run_id: str, project: str) -> str:
    """The id to resume: another one if the run was deleted, which W&B's client would take 30 s to notice."""
    import wandb

    from chiplog.sinks.wandb import client, confirmation

    try:
        current = wandb.setup().settings
        if current.mode not in (None, "online") or not client.has_key():
            return run_id
        queries, chosen = confirmation.RunQueries(wandb.setup().settings), run_id
        while not queries.rows(chosen, project, current.entity) and queries.is_deleted(chosen, project, current.entity):
            chosen = confirmation.next_id(chosen, run_id)
        return chosen
    except Exception:  # if W&B does not answer, its client reports it
        return run_id
