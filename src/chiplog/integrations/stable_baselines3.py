"""Stable-Baselines3: `model.learn(..., callback=ChiplogCallback())`, from `chiplog.integrations.stable_baselines3`.

Or `ChiplogWriter()` among the writers of a `stable_baselines3.common.logger.Logger` of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stable_baselines3.common import logger
from stable_baselines3.common.callbacks import BaseCallback

from chiplog.core import messages
from chiplog.core.run import Run
from chiplog.core.values.media import Image
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

STABLE_BASELINES3 = Framework("Stable-Baselines3", "stable_baselines3", "2.7 to 2.9")


class ChiplogWriter(logger.KVWriter):
    """Records what the logger of a model dumps, at its step: the number of steps of the environments."""

    def __init__(self, run: Run | None = None, **settings: Any) -> None:
        self.hooks = FrameworkRun("Stable-Baselines3", run, **settings)

    @hook(STABLE_BASELINES3, None)
    def write(
        self, key_values: Mapping[str, Any], key_excluded: Mapping[str, tuple[str, ...]] | None = None, step: int = 0
    ) -> None:
        row: dict[str, object] = {}
        for name, value in key_values.items():
            if "chiplog" in ((key_excluded or {}).get(name) or ()):
                continue
            if isinstance(value, logger.HParam):
                self.hooks.start()
                self.hooks.describe(value.hparam_dict)
            elif isinstance(value, logger.Image):
                row[name] = Image(value.image)
            elif isinstance(value, logger.Figure):
                row[name] = Image(value.figure)
            elif isinstance(value, logger.Video):
                messages.once("stable_baselines3 video", "Stable-Baselines3: videos are not kept")
            else:
                row[name] = value
        if row:
            self.hooks.log(row, step)

    @hook(STABLE_BASELINES3, None)
    def close(self) -> None:
        """The model may be evaluated, or go on learning; the run ends with the next training, or the script."""
        self.hooks.done()


class ChiplogCallback(BaseCallback):
    """Adds a writer to the logger of the model, and the hyperparameters to the run."""

    def __init__(self, run: Run | None = None, verbose: int = 0, **settings: Any) -> None:
        super().__init__(verbose)
        self._writer = ChiplogWriter(run, **settings)

    @hook(STABLE_BASELINES3, None)
    def _on_training_start(self) -> None:
        formats = self.model.logger.output_formats
        if self._writer not in formats:
            formats.append(self._writer)
        if self.model._num_timesteps_at_start == 0:  # else `learn(reset_num_timesteps=False)`: it goes on
            self._writer.hooks.begin()
        self._writer.hooks.start(_config(self.model))

    def _on_step(self) -> bool:
        return True

    @hook(STABLE_BASELINES3, None)
    def _on_training_end(self) -> None:
        """Take the writer out again, once it has what was recorded last."""
        self.model.logger.dump(self.model.num_timesteps)
        self.model.logger.output_formats.remove(self._writer)
        self._writer.close()


def _config(model: Any) -> dict[str, Any]:
    plain = (bool, int, float, str)
    values = {name: one for name, one in vars(model).items() if isinstance(one, plain) and not name.startswith("_")}
    return {"algorithm": type(model).__name__, "policy": type(model.policy).__name__, **values}
