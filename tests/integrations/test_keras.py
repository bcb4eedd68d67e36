"""The callback of Keras, with real models on torch."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy
import pytest

import chiplog
from tests.support.framework_runs import stored_runs

os.environ.setdefault("KERAS_BACKEND", "torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import keras

    from chiplog.integrations.keras import ChiplogCallback

pytestmark = pytest.mark.filterwarnings("ignore")
X, Y = numpy.ones((16, 4)), numpy.ones((16, 1))


def model() -> Any:
    one = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    one.compile("sgd", "mse", metrics=["mae"])
    return one


def fit(one: Any, callback: ChiplogCallback, **more: Any) -> None:
    one.fit(X, Y, batch_size=4, epochs=2, validation_data=(X, Y), verbose=0, callbacks=[callback], **more)


def test_fit_and_evaluate_are_recorded() -> None:
    """A row per epoch under Keras's names, rows of batches, the time of steps, the config; `evaluate` afterwards."""
    one, callback = model(), ChiplogCallback(project="k", log_every=2)
    fit(one, callback)
    one.evaluate(X, Y, verbose=0, callbacks=[callback])
    [run] = stored_runs("k")
    assert run.series("loss").steps.tolist() == run.series("val_loss").steps.tolist() == [4, 8]
    assert run.series("batch/loss").steps.tolist() == [2, 4, 6, 8]
    assert run.series("epoch").values.tolist() == [1, 2]
    assert run.series("train/step_time_sec").steps.tolist() == [1, 2, 4, 6, 8]
    assert run.series("eval/loss").steps.tolist() == [8]
    assert (
        run.config["parameters"] == 5 and run.config["optimizer"]["name"].lower() == "sgd" and run.state == "finished"
    )


def test_training_that_goes_on_continues_the_steps_in_a_new_run() -> None:
    """The optimizer knows how many batches it has seen."""
    one = model()
    fit(one, ChiplogCallback())
    fit(one, ChiplogCallback())
    first, second = stored_runs()
    assert first.series("loss").steps.tolist() == [4, 8] and second.series("loss").steps.tolist() == [12, 16]


def test_odd_calls(capsys: pytest.CaptureFixture[str]) -> None:
    """Out of order, twice, after the end, with odd values and arguments; the current run is used and left open."""
    with chiplog.init(sinks="none") as run:
        callback = ChiplogCallback()
        callback.set_params({"epochs": None})
        callback.on_epoch_end(0, {"nan": float("nan"), "none": None, 3: 1.0})
        callback.on_train_batch_end(0, {"loss": 1.0})
        callback.on_train_begin()
        callback.on_train_begin()
        callback.on_train_batch_end(0)
        for _ in range(2):
            callback.on_train_end()
            callback.on_epoch_end()  # type: ignore[call-arg]
        callback.on_epoch_end(1, {"after": 1.0})
        assert not run.inert
    [stored] = stored_runs()
    assert {"nan", "3", "after"} <= set(stored.names())
    err = capsys.readouterr().err
    assert err.count("chiplog works with 3.5 to 3.15") == 1 and "Traceback" not in err
