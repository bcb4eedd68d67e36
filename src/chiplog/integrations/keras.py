"""Keras: `model.fit(..., callbacks=[ChiplogCallback()])`, from `chiplog.integrations.keras`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from chiplog.core.run import Run
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

KERAS = Framework("Keras", "keras", "3.5 to 3.15")


class ChiplogCallback(keras.callbacks.Callback):
    """Records `fit` and `evaluate`: a run passed in, the script's current run, or one of its own.

    A row per epoch under Keras's own names, and one every `log_every` batches with the time of a step and `batch/…`,
    the means of the epoch so far that Keras reports. Steps count batches, and go on when training does.
    """

    def __init__(self, run: Run | None = None, log_every: int = 10, **settings: Any) -> None:
        super().__init__()
        self.log_every = max(1, int(log_every))
        self._hooks = FrameworkRun("Keras", run, **settings)
        self._step = 0
        self._training = False

    @hook(KERAS, None)
    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        if not self._training:
            self._hooks.begin()
        run = self._hooks.start(_config(self.model, self.params))
        self._training = True
        optimizer = getattr(self.model, "optimizer", None)
        self._step = int(optimizer.iterations) if optimizer is not None else 0
        epochs, batches = (self.params or {}).get("epochs"), (self.params or {}).get("steps")
        if run is not None and not run.inert:
            plan = {"total_steps": self._step + epochs * batches} if epochs and batches else {}
            run.meter(log_every=self.log_every, **plan)

    @hook(KERAS, None)
    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if (run := self._hooks.run) is not None:
            run.start_step(self._step + 1)

    @hook(KERAS, None)
    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if (run := self._hooks.run) is None:
            return
        self._step += 1
        if self._training:
            run.end_step(step=self._step)
        if logs and self._step % self.log_every == 0:
            run.log({f"batch/{name}": value for name, value in logs.items()}, self._step)

    @hook(KERAS, None)
    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._hooks.log({"epoch": epoch + 1, **(logs or {})}, self._step)

    @hook(KERAS, None)
    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """An evaluation outside of training; those of `fit` are in the row of the epoch."""
        if not self._training and logs and (run := self._hooks.start()) is not None:
            run.eval(logs, self._step)

    @hook(KERAS, None)
    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """The run stays open for `evaluate`, until the next training or the end of the script."""
        self._training = False
        self._hooks.done()


def _config(model: Any, params: Mapping[str, Any] | None) -> dict[str, Any]:
    config: dict[str, Any] = {"fit": dict(params or {}), "model": getattr(model, "name", "")}
    if callable(count := getattr(model, "count_params", None)) and getattr(model, "built", False):
        config["parameters"] = int(count())
    if (optimizer := getattr(model, "optimizer", None)) is not None:
        config["optimizer"] = optimizer.get_config()
    return config
