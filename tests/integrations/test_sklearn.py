"""The callback of scikit-learn, with its own estimators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

from tests.support.framework_runs import stored_runs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    from chiplog.integrations.sklearn import ChiplogCallback

pytestmark = pytest.mark.filterwarnings("ignore")
RANDOM = numpy.random.default_rng(0)
X, Y = RANDOM.normal(size=(60, 3)), RANDOM.integers(0, 2, 60)


@pytest.mark.parametrize("jobs", [None, 2])
def test_a_search_is_recorded(jobs: int | None) -> None:
    """The parameters, the results, the best ones and the tasks; with processes, those of this process."""
    search: Any = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2, n_jobs=jobs)
    search.set_callbacks(ChiplogCallback(project="s")).fit(X, Y)
    [run] = stored_runs("s")
    assert run.config["class"] == "GridSearchCV" and run.config["best_params"] == search.best_params_
    rows = run.table("cv_results")
    assert [float(row["mean_test_score"]) for row in rows] == search.cv_results_["mean_test_score"].tolist()
    assert run.summary["best_score"] == search.best_score_
    assert any(name.endswith("time_sec") for name in run.names())


def test_two_fits_are_two_runs() -> None:
    """The same estimator and callback, fitted again."""
    model: Any = LogisticRegression().set_callbacks(ChiplogCallback(project="s"))
    for _ in range(2):
        model.fit(X, Y)
    first, second = stored_runs("s")
    assert first.summary["n_iter"] == second.summary["n_iter"] >= 1 and first.config["C"] == 1.0


def test_odd_calls(capsys: pytest.CaptureFixture[str]) -> None:
    """Other arguments, out of order, twice."""
    callback: Any = ChiplogCallback()
    for _ in range(2):
        callback.teardown(object(), None)
        assert callback.on_fit_task_end(object(), None) is False and callback.on_fit_task_end() is False
        callback.setup(object(), None)
    err = capsys.readouterr().err
    assert "chiplog works with 1.9" in err and "Traceback" not in err
