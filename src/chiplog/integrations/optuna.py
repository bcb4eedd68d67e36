"""Optuna: `study.optimize(objective, callbacks=[ChiplogCallback()])`, from `chiplog.integrations.optuna`."""

from __future__ import annotations

from typing import Any

from chiplog.core.run import Run
from chiplog.integrations.shared.hooks import Framework, hook
from chiplog.integrations.shared.trial_runs import TrialRuns

OPTUNA = Framework("Optuna", "optuna", "4.0 to 5.0")
NO_RUN: Run | None = None
STATES = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}


class ChiplogCallback:
    """Keeps a run per trial: parameters, intermediate values, the result and the state, such as `pruned`.

    In the objective, `callback.run(trial)` is the run of the trial, for rows of one's own. Trials may run on threads
    (`n_jobs`).
    """

    def __init__(self, **settings: Any) -> None:
        self._runs = TrialRuns("Optuna", **settings)

    @hook(OPTUNA, None)
    def __call__(self, study: Any, trial: Any) -> None:
        """Called by Optuna when a trial has ended."""
        key = (study.study_name, trial.number)
        run = self._runs.start(key, **_settings(study, trial.number))
        if run is not None:
            run.config.update(_config(study, trial))
            for step, value in sorted(trial.intermediate_values.items()):
                run.log({"intermediate": value}, step)
            values = trial.values if trial.values is not None else []
            names = study.metric_names or (
                ["value"] if len(values) == 1 else [f"value/{n}" for n in range(len(values))]
            )
            run.summary.update(dict(zip(names, values, strict=False)))
        self._runs.end(key, STATES.get(trial.state.name, trial.state.name.lower()))

    @hook(OPTUNA, NO_RUN)
    def run(self, trial: Any) -> Run | None:
        """The run of a trial that is going on; the callback ends it."""
        return self._runs.start((trial.study.study_name, trial.number), **_settings(trial.study, trial.number))


def _settings(study: Any, number: int) -> dict[str, Any]:
    return {"name": f"{study.study_name} {number}", "tags": [study.study_name]}


def _config(study: Any, trial: Any) -> dict[str, Any]:
    about = {"study": study.study_name, "trial": trial.number, "directions": [one.name for one in study.directions]}
    return {**trial.params, "optuna": {**about, **trial.user_attrs}}
