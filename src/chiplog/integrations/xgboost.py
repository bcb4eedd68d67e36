"""XGBoost: `xgboost.train(..., callbacks=[ChiplogCallback()])`, from `chiplog.integrations.xgboost`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from xgboost.callback import TrainingCallback

from chiplog.core.run import Run
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

XGBOOST = Framework("XGBoost", "xgboost", "2.1 to 3.2")


class ChiplogCallback(TrainingCallback):
    """Records training, and the means and deviations of `xgboost.cv`: a row per round, `<data>/<metric>`."""

    def __init__(self, run: Run | None = None, **settings: Any) -> None:
        super().__init__()
        self._hooks = FrameworkRun("XGBoost", run, **settings)

    def before_training(self, model: Any) -> Any:
        self._begin(model)
        return model

    @hook(XGBOOST, False)
    def before_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Any]) -> bool:
        if (run := self._hooks.run) is not None:
            run.start_step(epoch)
        return False

    @hook(XGBOOST, False)
    def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Any]) -> bool:
        row: dict[str, object] = {}
        for data, metrics in evals_log.items():
            for metric, values in metrics.items():
                value = values[-1]
                if isinstance(value, tuple):  # of `cv`: the mean and the deviation
                    row[f"{data}/{metric}"], row[f"{data}/{metric}/std"] = value
                else:
                    row[f"{data}/{metric}"] = value
        if (run := self._hooks.start()) is not None:
            run.end_step(row, step=epoch)
        return False

    def after_training(self, model: Any) -> Any:
        self._end(model)
        return model

    @hook(XGBOOST, None)
    def _begin(self, model: Any) -> None:
        self._hooks.begin()
        self._hooks.start(
            {"xgboost": json.loads(model.save_config())["learner"]} if hasattr(model, "save_config") else {}
        )

    @hook(XGBOOST, None)
    def _end(self, model: Any) -> None:
        attributes = model.attributes() if hasattr(model, "attributes") else {}
        best = {name: float(attributes[name]) for name in ("best_iteration", "best_score") if name in attributes}
        if best and (run := self._hooks.run) is not None:
            run.summary.update(best)
        self._hooks.done()
