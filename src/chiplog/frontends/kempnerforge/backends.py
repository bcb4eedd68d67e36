"""Weights & Biases and TensorBoard: one run of our engine, begun with the first row, delivers to both."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chiplog import assembly
from chiplog.core.run import Run
from chiplog.frontends.kempnerforge.config import MetricsConfig
from chiplog.frontends.kempnerforge.logger import get_logger
from chiplog.sinks.delivery import cursor_path, load
from chiplog.store import layout

WATCH, DONE = 0.5, 3600.0  # s between looks at W&B, until it has taken the first rows
HOPELESS = 5.0  # s that the end waits for a W&B that has failed so far

_logger = get_logger("metrics.tracker")


class Outlet:
    """A run that is begun with the first row, when everything is set up and a checkpoint has been loaded.

    `run` is None before that, and False when it could not be begun; then rows go nowhere, and training goes on.
    """

    def __init__(self, config: Any, *, wandb: bool = False, tensorboard: bool = False, about: Any = None) -> None:
        self._config, self._about = config, about
        self._wandb, self._tensorboard = wandb, tensorboard
        self._warned = False
        self._lock = threading.RLock()
        self.run: Run | bool | None = None
        self.wandb: Run | bool | None = None  # the same, or False when W&B is not installed or has failed

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        if self.run is None:
            with self._lock:  # an eval may be logged by a thread of its own
                self.run = self._begin() if self.run is None else self.run
        if isinstance(self.run, Run):
            self.run.log(metrics, step=step)

    def close(self) -> None:
        """Deliver what is left; one that fails is not waited for long, and what it lacks `chiplog sync` brings."""
        if isinstance(self.run, Run):
            self._look()
            self.run.finish(timeout=HOPELESS if self._warned else 30)
            self._look()

    def _begin(self) -> Run | bool:
        config, sinks = self._config, self._sinks()
        known = config.wandb_run_id if "wandb" in sinks else ""
        try:
            made = assembly.beside(
                project=layout.slug(getattr(config, "wandb_project", None) or MetricsConfig.wandb_project),
                name=getattr(config, "wandb_run_name", None),
                config=self._about,
                sinks=sinks or "none",
                id=layout.slug(known) if known else None,
                alerts=False,
            )
        except Exception as error:
            _logger.warning(f"metrics are not recorded: {error}")
            return False
        if "wandb" in sinks:
            self.wandb = made
            config.wandb_run_id = known or made.id
            made.keep(self._look)
        return made

    def _sinks(self) -> dict[str, dict[str, Any]]:
        sinks: dict[str, dict[str, Any]] = {}
        if self._wandb and _is_installed("wandb"):
            known = {"id": self._config.wandb_run_id} if self._config.wandb_run_id else {}
            sinks["wandb"] = {"project": self._config.wandb_project, **known}
        elif self._wandb:
            self.wandb = False
            _logger.warning("wandb not installed — disabling WandB backend")
        if self._tensorboard:
            sinks["tensorboard"] = {"folder": self._config.tensorboard_dir}
        return sinks

    def _look(self) -> float:
        """Say once that W&B cannot be begun, or learn the id that it has given; how it goes later the engine says."""
        if self._warned or not isinstance(self.wandb, Run):
            return DONE
        health = self.wandb.health()["sinks"].get("wandb", {})
        if health.get("delivered"):
            self._config.wandb_run_id = _id_there(self.wandb.dir) or self._config.wandb_run_id
            return DONE
        if health.get("state") == "failing":
            self._warned = True
            self.wandb = False
            _logger.warning(f"WandB init failed: {health.get('last_error')}")
        return WATCH


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
        self._outlet.log(metrics, step)

    def close(self) -> None:
        self._outlet.close()


class WandBBackend(_Backend):
    """Weights & Biases. Nothing happens before the first `log`, which fills `config.wandb_run_id`."""

    def __init__(self, config: Any, outlet: Outlet | None = None) -> None:
        super().__init__(config, outlet or Outlet(config, wandb=True))

    @property
    def _run(self) -> Run | bool | None:
        """As in the original: None before the first `log`, False when W&B is out of use."""
        return self._outlet.wandb


class TensorBoardBackend(_Backend):
    """An event file in `config.tensorboard_dir`, from the first `log` on."""

    def __init__(self, config: Any, outlet: Outlet | None = None) -> None:
        super().__init__(config, outlet or Outlet(config, tensorboard=True))

    @property
    def _writer(self) -> Run | bool | None:
        return self._outlet.run


def _id_there(run: Path) -> str | None:
    """The id that a run has at W&B: another one than ours where that was deleted."""
    try:
        return str(load(cursor_path(run, "wandb")).state["id"])
    except (OSError, ValueError, KeyError):
        return None


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # put into sys.modules by hand, or taken out
        return False
