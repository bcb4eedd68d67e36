"""The callback of Optuna, with real studies."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import chiplog
from tests.support.framework_runs import stored_runs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import optuna

    from chiplog.integrations.optuna import ChiplogCallback

pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_trial_is_a_run() -> None:
    """With its parameters, intermediate values, result, state and name, and what the objective logs."""
    callback = ChiplogCallback(project="o")

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", -1, 1)
        trial.report(x, step=0)
        if trial.number == 1:
            raise optuna.TrialPruned
        if trial.number == 2:
            raise ValueError("bad")
        callback.run(trial).log({"mine": x}, 5)
        return x * x

    study = optuna.create_study(study_name="s")
    with chiplog.init(sinks="none") as current:
        study.optimize(objective, n_trials=4, callbacks=[callback], catch=(ValueError,))
        assert chiplog.run is current and not current.inert
    runs = {run.config["optuna"]["trial"]: run for run in stored_runs("o")}
    assert [runs[n].state for n in range(4)] == ["finished", "pruned", "failed", "finished"]
    assert runs[0].name == "s 0" and runs[0].tags == ("s",)
    assert runs[0].config["x"] == study.trials[0].params["x"] and runs[0].summary["value"] == study.trials[0].value
    assert runs[1].series("intermediate").values.tolist() == [study.trials[1].params["x"]]
    assert runs[3].series("mine").steps.tolist() == [5]


def test_trials_on_threads_share_a_background_thread() -> None:
    """Four are open at a time, and none ends another."""
    callback = ChiplogCallback(project="o")
    together = threading.Barrier(4)
    threads: list[int] = []

    def objective(trial: Any) -> tuple[float, float]:
        run = callback.run(trial)
        together.wait(30)
        threads.append(sum(thread.name.startswith("chiplog-background") for thread in threading.enumerate()))
        run.log({"n": trial.number}, 0)
        together.wait(30)
        return trial.number, 1.0

    study = optuna.create_study(directions=["minimize", "maximize"])
    study.optimize(objective, n_trials=4, n_jobs=4, callbacks=[callback])
    runs = stored_runs("o")
    assert sorted(run.series("n").values[0] for run in runs) == [0, 1, 2, 3]
    assert {run.state for run in runs} == {"finished"} and max(threads) <= 2
    assert all({"value/0", "value/1"} <= set(run.summary) for run in runs)


def test_odd_calls(capsys: pytest.CaptureFixture[str]) -> None:
    """Other arguments, twice, and objects of another version."""
    callback = ChiplogCallback()
    study = optuna.create_study()
    trial = optuna.trial.create_trial(value=float("inf"), params={}, distributions={})
    for _ in range(2):
        callback(study, trial)
        callback(study)  # type: ignore[call-arg]
        assert callback.run(object()) is None
    assert len(list(Path("runs/default").iterdir())) == 2
    assert capsys.readouterr().err.count("chiplog works with 4.0 to 5.0") == 2
