"""Values of several numbers."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import chiplog
from chiplog.frontends.tunix.sft.metrics_logger import (
    MetricsLogger,
    MetricsLoggerOptions,
    TensorboardBackend,
)
from tests.frontends.tunix.backend import Keeps


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody here is logged in to W&B."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)


def loaded(folder: str) -> EventAccumulator:
    found = EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 0})
    found.Reload()
    return found


def test_vectors_reach_backends_and_history() -> None:
    """As arrays, by step; the history is their stack, the metric the mean of all their numbers."""
    import jax.numpy as jnp
    import torch

    kept = Keeps()
    logger = MetricsLogger(
        MetricsLoggerOptions("logs", backend_factories=[lambda: TensorboardBackend("logs"), lambda: kept])
    )
    given = [
        np.array([1.0, 2.0, 3.0]),
        [4.0, 5, 6.0],
        torch.tensor([7.0, 8.0, 9.0], dtype=torch.bfloat16),
        jnp.zeros(3),
    ]
    for step, vector in enumerate(given):
        logger.log("rewards", "each", vector, "train", step)
    logger.log("rewards", "table", np.array([[1.0, math.nan], [3.0, 4.0]]), "train", 4)
    logger.log("rewards", "one", np.array([2.5]), "train", 4)
    logger.close()
    events = sorted((step, event, np.asarray(value).tolist()) for event, value, step in kept.events if step < 4)
    expected = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [0.0, 0.0, 0.0]]
    assert events == [(step, "rewards/train/each", row) for step, row in enumerate(expected)]
    ((_, table),) = kept.named("rewards/train/table")
    assert table.shape == (2, 2) and math.isnan(table[0][1]) and kept.named("rewards/train/one") == [(4, 2.5)]
    assert logger.get_metric_history("rewards", "each", "train").tolist() == expected
    assert logger.get_metric("rewards", "each", "train") == pytest.approx(np.mean(expected))
    assert loaded("logs").Tags()["histograms"] == ["rewards/train/each", "rewards/train/table"]
    assert logger.run is not None and "rewards/train/one" in chiplog.read(logger.run.dir).names()


def test_vectors_of_several_shapes_are_elements_of_their_history() -> None:
    """And the mean is over every number."""
    logger = MetricsLogger()
    for value in (np.array([1.0, 2.0]), 3.0, np.array([4.0, 5.0, 6.0])):
        logger.log("p", "ragged", value, "train", 0)
    history = logger.get_metric_history("p", "ragged", "train")
    assert [np.asarray(one).tolist() for one in history] == [[1.0, 2.0], 3.0, [4.0, 5.0, 6.0]]
    assert logger.get_metric("p", "ragged", "train") == pytest.approx(3.5)
