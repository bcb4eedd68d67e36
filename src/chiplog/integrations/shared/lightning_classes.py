"""Lightning's logger and callback, on the base classes of either of its namespaces.

`lightning.pytorch` and `pytorch_lightning` hold the same classes twice, and each accepts only its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from lightning_utilities.core.rank_zero import rank_zero_only

from chiplog.core import messages
from chiplog.core.run import Run
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

LIGHTNING = Framework("Lightning", "lightning", "2.5 and 2.6")


class LightningLogger:
    """What a logger of Lightning and Fabric does; `Logger` of a namespace is its other base.

    The run starts with the first call, on the process that logs. Every method works on every rank, and none waits for
    another rank.
    """

    def __init__(self, run: Run | None = None, **settings: Any) -> None:
        super().__init__()
        self._hooks = FrameworkRun("Lightning", run, **settings)
        self._experiment: Experiment | None = None

    @property
    def name(self) -> str:
        """The project, which is the first part of the folder of checkpoints."""
        if (run := self._hooks.run) is not None:
            return run.project
        return str(self._hooks.settings.get("project") or os.environ.get("CHIPLOG_PROJECT") or "default")

    @property
    def version(self) -> str:
        """The run's id, which is the second part of that folder; Lightning takes it from the first process."""
        if _rank() > 0:
            return str(self._hooks.settings.get("id") or "")
        return "" if (run := self._hooks.start()) is None else run.id

    @property
    def save_dir(self) -> None:
        """None: checkpoints are below the trainer's `default_root_dir`, and not in the run."""
        return None

    @property
    def experiment(self) -> Experiment:
        """The run, with the methods of a `SummaryWriter` that modules call on it; on other ranks, it keeps nothing."""
        run = None if _rank() > 0 else self._hooks.start()
        if self._experiment is None or self._experiment.run is not run:
            self._experiment = Experiment(run)
        return self._experiment

    @property
    def run(self) -> Run | None:
        """The run, once it has started."""
        return self._hooks.run

    @hook(LIGHTNING, None)
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        if (run := self._hooks.run) is not None or (_rank() == 0 and (run := self._hooks.start()) is not None):
            run.log(metrics, step)

    @hook(LIGHTNING, None)
    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        if _rank() == 0:
            self._hooks.start()
            self._hooks.describe(params)

    @hook(LIGHTNING, None)
    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        path, run = str(getattr(checkpoint_callback, "last_model_path", "") or ""), self._hooks.run
        path = path or str(getattr(checkpoint_callback, "best_model_path", ""))
        if run is not None and path:
            run.event("checkpoint", path=path)

    @hook(LIGHTNING, None)
    def log_graph(self, model: Any, input_array: Any = None) -> None:
        """Record the modules of the model; torch's graph is not kept."""
        if (run := self._hooks.run) is not None:
            run.config["modules"] = str(model)

    def save(self) -> None:
        """Nothing: a row is kept when `log_metrics` returns."""

    @hook(LIGHTNING, None)
    def finalize(self, status: str) -> None:
        """End the run if training has failed; else it stays open for `trainer.test()` and the like."""
        if status in ("success", "finished"):
            self._hooks.done()
        else:  # called while the error is being handled
            error = sys.exc_info()[1]
            self._hooks.end(error, state="" if error is not None else status)


class Experiment:
    """The run, as `logger.experiment`: everything of a run, and `add_scalar`, which many modules call."""

    def __init__(self, run: Run | None) -> None:
        self.run = run

    @hook(LIGHTNING, None)
    def add_scalar(self, tag: str, scalar_value: object, global_step: int | None = None, *_: Any, **__: Any) -> None:
        if self.run is not None:
            self.run.log({tag: scalar_value}, global_step)

    @hook(LIGHTNING, None)
    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, object], global_step: int | None = None, *_: Any, **__: Any
    ) -> None:
        if self.run is not None:
            self.run.log({f"{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}, global_step)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.run is None:
            return _nothing
        if hasattr(self.run, name):
            return getattr(self.run, name)
        messages.once(f"experiment {name}", f"Lightning: logger.experiment.{name} has no effect: a run has no {name!r}")
        return _nothing


class LightningCallback:
    """Adds a logger to every Trainer; `Callback` of a namespace is its other base."""

    logger_class: type[LightningLogger]

    @hook(LIGHTNING, None)
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        loggers = list(trainer.loggers)
        if not trainer.fast_dev_run and not any(isinstance(one, LightningLogger) for one in loggers):
            trainer.loggers = [*loggers, self.logger_class()]


def _rank() -> int:
    """The rank as Lightning's loggers know it."""
    return int(getattr(rank_zero_only, "rank", 0) or 0)


def _nothing(*_: Any, **__: Any) -> None:
    return None
