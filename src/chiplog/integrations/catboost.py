"""CatBoost: `model.fit(..., callbacks=[ChiplogCallback()])`, from `chiplog.integrations.catboost`."""

from __future__ import annotations

from typing import Any

from chiplog.core.run import Run
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

CATBOOST = Framework("CatBoost", "catboost", "1.2")


class ChiplogCallback:
    """Records training: a row per iteration, `<data>/<metric>`. Its callbacks see no parameters: pass `config=`."""

    def __init__(self, run: Run | None = None, **settings: Any) -> None:
        self._hooks = FrameworkRun("CatBoost", run, **settings)
        self._newest: int | None = None

    @hook(CATBOOST, True)
    def after_iteration(self, info: Any) -> bool:
        """True: training goes on."""
        if self._newest is None or info.iteration <= self._newest:  # they count from 1 in every training
            self._hooks.begin()
            self._hooks.start()
        self._newest = info.iteration
        row = {f"{data}/{name}": values[-1] for data, one in info.metrics.items() for name, values in one.items()}
        self._hooks.log(row, info.iteration)
        self._hooks.done()
        return True
