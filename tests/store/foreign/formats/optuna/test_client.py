"""Studies of Optuna itself: what it returns for its own storage is what we read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.foreign_stores import opened, values

optuna = pytest.importorskip("optuna")
pytestmark = pytest.mark.filterwarnings("ignore")
STATES = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}


def storage(kind: str, folder: Path) -> Any:
    if kind == "database":
        return optuna.storages.RDBStorage(f"sqlite:///{folder / 'study.db'}")
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / "study.log")))


def objective(trial: Any) -> float:
    rate = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    trial.suggest_int("layers", 1, 9, step=2)
    trial.suggest_categorical("act", ["relu", None, True])
    for step in range(0, 30, 10):
        trial.report(float("nan") if trial.number == 2 else rate / (step + 1), step)
        if trial.number == 1 and step == 10:
            raise optuna.TrialPruned
    if trial.number == 3:
        raise ValueError
    return float(rate)


@pytest.mark.parametrize("kind", ["database", "journal"])
def test_every_trial_is_that_of_optuna(kind: str, tmp_path: Path) -> None:
    """Params, reports, results, states and attributes, by its own reader."""
    folder = tmp_path / "source"
    folder.mkdir()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.RandomSampler(seed=7)
    study = optuna.create_study(study_name="search", storage=storage(kind, folder), sampler=sampler)
    study.enqueue_trial({"lr": 0.01, "layers": 3, "act": None})
    study.optimize(objective, n_trials=5, catch=(ValueError,))
    runs = {run.name: run for run in opened(folder, tmp_path / "cache")}
    loaded = optuna.load_study(study_name="search", storage=storage(kind, folder))
    assert len(runs) == len(loaded.trials) == 5
    for trial in loaded.trials:
        run = runs[f"trial-{trial.number}"]
        assert run.config == trial.params and run.state == STATES[trial.state.name]
        assert repr(values(run).get("value", [])) == repr(sorted(trial.intermediate_values.items(), key=repr))
        assert trial.values is None or repr(run.summary["value"]) == repr(trial.values[0])
        assert run.created == pytest.approx(trial.datetime_start.timestamp() * 1e9, abs=1e4)
