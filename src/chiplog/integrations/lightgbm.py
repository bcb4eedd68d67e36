"""LightGBM: `lightgbm.train(..., callbacks=[ChiplogCallback()])`, from `chiplog.integrations.lightgbm`."""

from __future__ import annotations

from typing import Any

from chiplog.core.run import Run
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

LIGHTGBM = Framework("LightGBM", "lightgbm", "4.5 to 4.7")


class ChiplogCallback:
    """Records training and `lightgbm.cv`: a row per round, `<data>/<metric>`."""

    order = 20  # before early stopping, which ends the round
    before_iteration = False

    def __init__(self, run: Run | None = None, **settings: Any) -> None:
        self._hooks = FrameworkRun("LightGBM", run, **settings)

    @hook(LIGHTGBM, None)
    def __call__(self, env: Any) -> None:
        if env.iteration == env.begin_iteration:
            self._hooks.begin()
            self._hooks.start({"lightgbm": dict(env.params)})
        row: dict[str, object] = {}
        for data, metric, value, _, *deviation in env.evaluation_result_list or ():
            row[f"{data}/{metric}"] = value
            if deviation:
                row[f"{data}/{metric}/std"] = deviation[0]
        self._hooks.log(row or {"iteration": env.iteration}, env.iteration)
        self._hooks.done()  # early stopping ends training without another call
