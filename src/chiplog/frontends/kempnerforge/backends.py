"""Weights & Biases and TensorBoard: one run of our engine, begun with the first row, delivers to both."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chiplog import assembly
from chiplog.core import messages
from chiplog.core.run import Run
from chiplog.core.values.text import reason, words
from chiplog.frontends.kempnerforge import client
from chiplog.frontends.kempnerforge.client import Client
from chiplog.frontends.kempnerforge.config import MetricsConfig
from chiplog.frontends.kempnerforge.logger import get_logger
from chiplog.store import layout
from chiplog.store.journal.cursors import cursor_path, load

WATCH, FAILED, DONE = 0.5, 5.0, 3600.0  # s between looks at W&B, until it has taken the first rows
PATIENCE, HOPELESS = 30.0, 5.0  # s that the end waits for W&B, and for one that has failed so far
MOST_BEHIND = 5  # warnings about rows that lie behind W&B's newest

_logger = get_logger("metrics.tracker")


class Outlet:
    """A run that is begun with the first row, when everything is set up and a checkpoint has been loaded.

    `run` is None before that, and False when it could not be begun; then rows go nowhere, and training goes on.
    """

    def __init__(self, config: Any, *, wandb: bool = False, tensorboard: bool = False, about: Any = None) -> None:
        self._config, self._about = config, about
        self._wandb, self._tensorboard = wandb, tensorboard
        self._warned = self._late = False
        self._behind: int | None = None  # while rows lie behind W&B's newest: the first step that it takes
        self._times_behind = 0
        self._named_sync = False  # a warning has named the command that completes the run
        self._lock = threading.RLock()
        self.run: Run | bool | None = None
        self.wandb: Any = None  # W&B's run here or ours in the relay; False when W&B is not installed or has failed
        self._client: Client | None = None
        self._relayed: Run | None = None  # what the relay brings to W&B
        self._rows = 0
        self.writer: Any = None  # what somebody has put in the place of TensorBoard's; False for none

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def replace_wandb(self, run: Any) -> None:
        """Let rows go to this run of W&B; False: to none; None: to one that is begun with the first row."""
        self.wandb, self._wandb = run, run is not False
        self._client = Client(run) if run else None

    def replace_writer(self, writer: Any) -> None:
        """Let rows go to this writer of TensorBoard; False: to none; None: to ours."""
        self.writer, self._tensorboard = writer, writer is None

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        self.begin()
        if isinstance(self.run, Run):
            self.run.log(metrics, step=step)
            self._rows += 1
        if self.writer:
            self._write(metrics, step)
        if self._client is not None:
            self._send(self._client, metrics, step)
        elif self._wandb and not self._late and client.is_imported():
            self._late = True
            _logger.warning(
                "wandb was imported after the first logged step, and its run is in another process: wandb.run is None "
                'here, and wandb.log() fails; import wandb earlier, or set relay = "thread" in chiplog.toml '
                "(CHIPLOG_RELAY=thread)"
            )

    def begin(self) -> None:
        if self.run is None:
            with self._lock:  # an eval may be logged by a thread of its own
                if self.run is None:
                    self.run = self._begin()

    def close(self) -> None:
        """Deliver what is left; one that fails is not waited for long, and what it lacks `chiplog sync` brings."""
        if self._client is not None:
            try:
                self._client.close()
            except Exception as error:
                _logger.warning(f"WandB is not complete: {words(error)}")
            self._client = None
        if isinstance(self.run, Run):
            self._look()
            patience = HOPELESS if self._warned else PATIENCE
            if self._relayed is not None:
                messages.first_missing(self.run.dir, "wandb")
            left = self.run.finish(timeout=patience)
            arrived = self._look() == DONE
            if "wandb" in left.missing and (arrived or not self._named_sync):
                self._named_sync = True
                rows = "all rows" if arrived else f"{self._rows:,} row{'s' * (self._rows != 1)}"
                _logger.warning(
                    f"W&B has not confirmed {rows} within {patience:.0f} s; `chiplog sync {self.run.dir}` completes it"
                )

    def _begin(self) -> Run | bool:
        config = self._config
        known = self._known_id() if self._wandb else ""
        run_id = known or layout.new_id()
        sinks: dict[str, dict[str, Any]] = {}
        if self._wandb and self._client is None and self._is_installed():
            self._client = self._begin_here(run_id, known)
            if self._client is None and not client.is_stand_in():
                sinks["wandb"] = {"project": config.wandb_project, **({"id": known} if known else {})}
        if self._client is not None:
            run_id = str(self._client.id or run_id)
        if self._tensorboard:
            sinks["tensorboard"] = {"folder": config.tensorboard_dir}
        try:
            made = assembly.beside(
                project=layout.slug(getattr(config, "wandb_project", None) or MetricsConfig.wandb_project),
                name=getattr(config, "wandb_run_name", None),
                config=self._about,
                sinks=sinks or "none",
                id=layout.slug(run_id),
                alerts=False,
                reduce=False,  # the document has no statistics across ranks, and only rank 0 is here
            )
        except Exception as error:
            _logger.warning(f"metrics are not recorded: {error}")
            return False
        if "wandb" in sinks:
            self._relayed = made
            if not self._warned:
                self.wandb = made
            self._write_back(run_id)
            made.keep(self._look)
            made.at_finish(self._look)  # before the engine says what is not delivered
        return made

    def _known_id(self) -> str:
        """The id to go on with: from a checkpoint, or as W&B's own variable says."""
        return str(getattr(self._config, "wandb_run_id", None) or os.environ.get("WANDB_RUN_ID") or "")

    def _write_back(self, run_id: str) -> None:
        """Fill `wandb_run_id` for the checkpoint."""
        if run_id == getattr(self._config, "wandb_run_id", None):
            return
        try:
            self._config.wandb_run_id = run_id
        except Exception as error:  # a frozen dataclass, say
            if messages.first(f"kempnerforge id {id(self)}"):
                _logger.warning(f"wandb_run_id = {run_id!r} cannot be written to the config: {words(error)}")

    def _is_installed(self) -> bool:
        if _is_installed("wandb"):
            return True
        self.wandb = False
        _logger.warning("wandb not installed — disabling WandB backend")
        return False

    def _begin_here(self, run_id: str, known: str) -> Client | None:
        """W&B's own client in this process, where the script uses it."""
        try:
            if not client.is_wanted():
                return None
            name = getattr(self._config, "wandb_run_name", None)
            made = client.begin(self._config.wandb_project, name, run_id, known)
        except Exception as error:
            self._late = True  # it was early enough, and this warning says why its run is not here
            self._fail(reason(error))
            return None
        self.wandb = made.native
        self._write_back(made.id)
        _logger.info(f"WandB initialized: {getattr(made.native, 'url', None)}")
        return made

    def _send(self, client: Client, metrics: Mapping[str, Any], step: int) -> None:
        try:
            first = client.log(metrics, step)
        except Exception as error:
            if not self._warned:
                self._warned = True
                _logger.warning(f"WandB does not take a row: {words(error)}; the journal has it, and training goes on")
            return
        if first is not None and first != self._behind and self._times_behind < MOST_BEHIND:
            self._times_behind += 1
            last = "; this is not reported any more" if self._times_behind == MOST_BEHIND else ""
            _logger.warning(
                f"step {step} lies behind W&B's newest: W&B keeps the rows that it has, and steps below {first} "
                f"are not sent again; the journal has them{last}"
            )
        self._behind = first

    def _write(self, metrics: Mapping[str, Any], step: int) -> None:
        try:
            for name, value in metrics.items():
                self.writer.add_scalar(name, value, global_step=step)
        except Exception as error:
            if messages.first(f"kempnerforge writer {id(self)}"):
                _logger.warning(f"TensorBoard's writer fails: {words(error)}; the journal has the row")

    def _look(self) -> float:
        """Say once that W&B cannot be begun, and learn the id that it has given; how it goes later the engine says."""
        if self._relayed is None:
            return DONE
        health = self._relayed.health()["sinks"].get("wandb", {})
        if health.get("delivered"):
            if there := _id_there(self._relayed.dir):
                self._write_back(there)
            return DONE
        if health.get("state") == "failing" and not self._warned:
            why = str(health.get("last_error"))
            messages.first_reason(self._relayed.dir, "wandb", why)
            self._named_sync = True
            self._fail(f"{why}; the rows are kept, and `chiplog sync {self._relayed.dir}` sends them later")
        return FAILED if self._warned else WATCH

    def _fail(self, why: str) -> None:
        self._warned, self.wandb = True, False
        _logger.warning(f"WandB init failed: {why}")


class _LoggingBackend:
    """What the original's backends derive from, and your own may: append it to `tracker._backends`."""

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


class _Backend(_LoggingBackend):
    """A destination by itself, or one of several at the same outlet."""

    def __init__(self, config: Any, outlet: Outlet) -> None:
        self._config, self._outlet = config, outlet

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        self._ensure_init()
        if self._outlet.run is not None:
            self._outlet.log(metrics, step)

    def close(self) -> None:
        self._outlet.close()

    def _ensure_init(self) -> None:
        """Begin now what the first `log` would begin; nothing, where the destination was switched off before."""
        if self._destination is not False:
            self._outlet.begin()

    @property
    def _destination(self) -> Any:
        raise NotImplementedError


class WandBBackend(_Backend):
    """Weights & Biases. Nothing happens before the first `log`, which fills `config.wandb_run_id`."""

    def __init__(self, config: Any, outlet: Outlet | None = None) -> None:
        super().__init__(config, outlet or Outlet(config, wandb=True))

    @property
    def _run(self) -> Any:
        """As in the original: None before the first `log`, False when W&B is out of use."""
        return self._outlet.wandb

    @_run.setter
    def _run(self, run: Any) -> None:
        self._outlet.replace_wandb(run)

    @property
    def _destination(self) -> Any:
        return self._run


class TensorBoardBackend(_Backend):
    """An event file in `config.tensorboard_dir`, from the first `log` on."""

    def __init__(self, config: Any, outlet: Outlet | None = None) -> None:
        super().__init__(config, outlet or Outlet(config, tensorboard=True))

    @property
    def _writer(self) -> Any:
        """None before the first `log`, False when TensorBoard is out of use."""
        return self._outlet.run if self._outlet.writer is None else self._outlet.writer

    @_writer.setter
    def _writer(self, writer: Any) -> None:
        self._outlet.replace_writer(writer)

    @property
    def _destination(self) -> Any:
        return self._writer


def _id_there(run: Path) -> str | None:
    """The id that a run has at W&B: another one than ours where that was deleted."""
    try:
        return str(load(cursor_path(run, "wandb")).state["id"])
    except (OSError, ValueError, KeyError):
        return None


def _is_installed(package: str) -> bool:
    if sys.modules.get(package) is not None:
        return True
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # put into sys.modules by hand, or taken out
        return False
