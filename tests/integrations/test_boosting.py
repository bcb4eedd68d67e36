"""The callbacks of XGBoost, LightGBM and CatBoost."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

import chiplog
from tests.support.framework_runs import stored_runs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import lightgbm
    import xgboost

    from chiplog.integrations import catboost as for_catboost
    from chiplog.integrations import lightgbm as for_lightgbm
    from chiplog.integrations import xgboost as for_xgboost

pytestmark = pytest.mark.filterwarnings("ignore")
RANDOM = numpy.random.default_rng(0)
X, Y = RANDOM.normal(size=(60, 3)), RANDOM.integers(0, 2, 60)


def test_xgboost_training() -> None:
    """A row per round, the parameters, the best round; a second training is a second run."""
    data = xgboost.DMatrix(X, Y)
    options = {"max_depth": 2, "objective": "binary:logistic", "eval_metric": ["logloss", "error"], "nthread": 1}
    for _ in range(2):
        xgboost.train(
            options, data, 4, evals=[(data, "train"), (data, "valid")], verbose_eval=False, early_stopping_rounds=3,
            callbacks=[for_xgboost.ChiplogCallback(project="x")],
        )  # fmt: skip
    first, second = stored_runs("x")
    assert first.series("valid/logloss").steps.tolist() == second.series("train/error").steps.tolist() == [0, 1, 2, 3]
    assert "train/step_time_sec" in first.names() and first.summary["best_iteration"] >= 0
    assert "binary:logistic" in str(first.config["xgboost"]) and first.state == "finished"


def test_xgboost_cross_validation() -> None:
    """The mean and the deviation of the folds."""
    callback = for_xgboost.ChiplogCallback()
    xgboost.cv({"nthread": 1}, xgboost.DMatrix(X, Y), 3, nfold=2, callbacks=[callback])
    [run] = stored_runs()
    assert {"test/rmse", "test/rmse/std"} <= set(run.names())


def test_lightgbm_training_and_cross_validation() -> None:
    """A row per round, also with early stopping, which raises; each training is a run."""
    options = {"objective": "binary", "metric": "binary_logloss", "num_leaves": 4, "verbose": -1, "num_threads": 1}
    data = lightgbm.Dataset(X, Y, free_raw_data=False)
    valid = lightgbm.Dataset(X, 1 - Y, reference=data, free_raw_data=False)
    stop = lightgbm.early_stopping(2, verbose=False)
    callbacks = [for_lightgbm.ChiplogCallback(project="l"), stop]
    lightgbm.train(options, data, 20, valid_sets=[valid], valid_names=["valid"], callbacks=callbacks)
    lightgbm.cv(options, data, 3, nfold=2, callbacks=[for_lightgbm.ChiplogCallback(project="l")])
    trained, validated = stored_runs("l")
    assert trained.series("valid/binary_logloss").steps.tolist() == [0, 1, 2]
    assert trained.config["lightgbm"]["num_leaves"] == 4 and trained.state == "finished"
    assert any(name.endswith("binary_logloss/std") for name in validated.names())


def test_catboost_training() -> None:
    """Its documented hook: an object with the iteration and all metrics so far; true for going on."""
    callback = for_catboost.ChiplogCallback(project="c", config={"depth": 2})
    for _ in range(2):
        history: list[float] = []
        for iteration in range(1, 4):
            history.append(1 / iteration)
            metrics = {"learn": {"Logloss": history}, "validation": {"AUC": history}}
            assert callback.after_iteration(SimpleNamespace(iteration=iteration, metrics=metrics)) is True
    first, second = stored_runs("c")
    assert first.series("learn/Logloss").values.tolist() == [1.0, 0.5, 1 / 3]
    assert second.series("validation/AUC").steps.tolist() == [1, 2, 3] and first.config["depth"] == 2


def test_odd_calls(capsys: pytest.CaptureFixture[str]) -> None:
    """Other arguments and shapes, out of order, after the end: nothing raises, and every hook returns "go on"."""
    with chiplog.init(sinks="none"):
        boosted: Any = for_xgboost.ChiplogCallback()
        for _ in range(2):
            assert boosted.after_iteration(None, 0, {"train": {"loss": [float("nan")]}}) is False
            assert boosted.after_iteration(None, 0) is False and boosted.before_iteration() is False
            assert boosted.after_training("model") == "model" == boosted.before_training("model")
            assert for_catboost.ChiplogCallback().after_iteration(SimpleNamespace()) is True
            for_lightgbm.ChiplogCallback()(SimpleNamespace(iteration=0))
    err = capsys.readouterr().err
    assert "chiplog works with 2.1 to 3.2" in err and "chiplog works with 4.5 to 4.7" in err
    assert "chiplog works with 1.2" in err and "Traceback" not in err
