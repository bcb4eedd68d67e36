"""The progress bar."""

from __future__ import annotations

import pytest

from chiplog.core.errors import MissingPackage
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger
from chiplog.frontends.tunix.sft.progress_bar import ProgressBar


def test_a_bar_shows_steps_and_metrics(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The means of training first, then of evaluation; one that is not there is reported, a learning rate is not."""
    logger = MetricsLogger()
    for value in (1.0, 2.0):
        logger.log("actor", "loss", value, "train", 1)
        logger.log("actor", "loss", value / 2, "eval", 1)
    bar = ProgressBar(metrics_prefix="actor", metrics_logger=logger, initial_steps=1, max_steps=4, description="GRPO")
    bar.update_metrics(["loss", "learning_rate", "kl"], "eval")
    bar.update_metrics(["loss"], "train")
    bar.update(2)
    bar.close()
    said = capfd.readouterr().err
    assert bar.tqdm_bar.n == 3 and bar.tqdm_bar.total == 4
    assert bar.tqdm_bar.postfix == "actor_train_loss=1.5, actor_eval_loss=0.75"
    assert "GRPO" in said and "no metric 'kl' (eval)" in said and "learning_rate" not in said
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    with pytest.raises(MissingPackage, match="pip install tqdm"):
        ProgressBar(logger, 0, 1)
