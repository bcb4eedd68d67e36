"""scikit-learn: `GridSearchCV(...).set_callbacks(ChiplogCallback())`, from `chiplog.integrations.sklearn`."""

from __future__ import annotations

import os
import time
from typing import Any

from chiplog.core.run import Run
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

SKLEARN = Framework("scikit-learn", "sklearn", "1.9")


class ChiplogCallback:
    """Records `fit`: the parameters of the estimator, a row per task and its duration, and the results of a search.

    Tasks that another process does, as with `n_jobs`, are not seen here; the results of the search are.
    """

    def __init__(self, run: Run | None = None, **settings: Any) -> None:
        self._hooks = FrameworkRun("scikit-learn", run, **settings)
        self._pid = os.getpid()
        self._began: dict[object, float] = {}
        self._tasks = self._fits = 0

    @hook(SKLEARN, None)
    def setup(self, estimator: Any, context: Any) -> None:
        if not self._here:
            return
        if self._fits == 0:
            self._hooks.begin()
            self._tasks = 0
        self._fits += 1
        self._hooks.start({"class": type(estimator).__name__, **estimator.get_params()})

    @hook(SKLEARN, None)
    def on_fit_task_begin(self, estimator: Any, context: Any, **_: Any) -> None:
        if self._here:
            self._began[_path(context)] = time.perf_counter()

    @hook(SKLEARN, False)
    def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> bool:
        """False: fitting goes on."""
        began = self._began.pop(_path(context), None) if self._here else None
        if began is not None and (run := self._hooks.run) is not None:
            name = f"{context.estimator_name}/{context.task_name}"
            run.log({f"{name}/time_sec": time.perf_counter() - began, f"{name}/id": context.task_id}, self._tasks)
            self._tasks += 1
        return False

    @hook(SKLEARN, None)
    def teardown(self, estimator: Any, context: Any) -> None:
        if not self._here:
            return
        self._fits = max(0, self._fits - 1)
        run = self._hooks.run
        results = getattr(estimator, "cv_results_", None)
        if run is not None and results is not None:
            run.table("cv_results", _rows(results))
            best = {
                "best_score": getattr(estimator, "best_score_", None),
                "best_index": getattr(estimator, "best_index_", None),
            }
            run.summary.update({name: float(value) for name, value in best.items() if value is not None})
            run.config["best_params"] = getattr(estimator, "best_params_", None)
        if run is not None and (count := getattr(estimator, "n_iter_", None)) is not None:
            run.summary["n_iter"] = int(max(count)) if hasattr(count, "__len__") else int(count)
        if self._fits == 0:
            self._hooks.done()

    @property
    def _here(self) -> bool:
        """Whether this is the process of the script, and not a worker of joblib."""
        return self._pid == os.getpid()


def _path(context: Any) -> tuple[object, ...]:
    """What identifies a task: the way to it from the root."""
    path: list[object] = []
    while context is not None:
        path.append((context.estimator_name, context.task_name, context.task_id))
        context = context.parent
    return tuple(path)


def _rows(results: Any) -> list[dict[str, Any]]:
    """The results of a search, a row per candidate; numpy's masked values are not there."""
    names = [name for name in results if name != "params"]
    return [{name: results[name][n] for name in names} for n in range(len(results["params"]))]
