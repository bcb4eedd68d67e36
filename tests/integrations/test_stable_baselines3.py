"""The callback and the writer of Stable-Baselines3, with a real model."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

from tests.support.framework_runs import stored_runs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from stable_baselines3 import A2C
    from stable_baselines3.common import logger

    from chiplog.integrations.stable_baselines3 import ChiplogCallback, ChiplogWriter

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_model_learns() -> None:
    """What its logger dumps, at the step of the environments, and its hyperparameters."""
    model: Any = A2C("MlpPolicy", "CartPole-v1", n_steps=8, seed=0, device="cpu")
    model.learn(64, callback=ChiplogCallback(project="rl"), log_interval=2)
    model.learn(32, callback=ChiplogCallback(project="rl"), log_interval=2)
    first, second = stored_runs("rl")
    assert first.series("train/policy_loss").steps.tolist()[:3] == [16, 32, 48]
    assert first.config["algorithm"] == "A2C" and first.config["gamma"] == 0.99 and first.state == "finished"
    assert "train/policy_loss" in second.names()


def test_a_writer_among_others(tmp_path: Any) -> None:
    """In a logger of one's own: images, figures, hyperparameters, texts; what is excluded is left out."""
    writer = ChiplogWriter(project="w")
    own = logger.Logger(str(tmp_path), [writer])
    own.record("a", 1.0)
    own.record("nan", float("nan"))
    own.record("text", "words")
    own.record("secret", 2.0, exclude="chiplog")
    own.record("image", logger.Image(numpy.zeros((3, 4, 4), dtype=numpy.uint8), "CHW"))
    own.record("video", logger.Video(None, 1), exclude=("stdout",))
    own.record("hparam", logger.HParam({"lr": 0.1}, {"a": 1.0}))
    own.dump(7)
    own.close()
    [run] = stored_runs("w")
    assert run.series("a").steps.tolist() == [7] and "secret" not in run.names() and run.config["lr"] == 0.1


def test_odd_calls(capsys: pytest.CaptureFixture[str]) -> None:
    """Other arguments, after the end, twice; without a model."""
    writer, callback = ChiplogWriter(), ChiplogCallback()
    for _ in range(2):
        writer.write()  # type: ignore[call-arg]
        writer.write({"a": None, 3: 1.0}, {}, 1)  # type: ignore[dict-item]
        writer.close()
        callback._on_training_start()
        callback._on_training_end()
    assert capsys.readouterr().err.count("chiplog works with 2.7 to 2.9") == 3
