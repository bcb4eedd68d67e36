"""Values that are buffered until their step is complete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chiplog.frontends.tunix.rl.rl_cluster import ClusterConfig, RLCluster, RLTrainingConfig
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLoggerOptions, Mode
from tests.frontends.tunix.backend import Keeps


@pytest.fixture
def kept() -> Keeps:
    return Keeps()


def cluster_of(kept: Keeps, **more: Any) -> RLCluster:
    options = MetricsLoggerOptions("logs", backend_factories=[lambda: kept])
    config = ClusterConfig(training_config=RLTrainingConfig(metrics_logging_options=options))
    return RLCluster(cluster_config=config, **more)


def test_steps_out_of_order_are_one_record_each(kept: Keeps) -> None:
    """B3: 0, 1, 0."""
    cluster = cluster_of(kept)
    for step, value in ((0, 1.0), (1, 5.0), (0, 3.0)):
        cluster.buffer_metrics_async({"x": (value, np.mean)}, Mode.TRAIN, step)
    cluster.close()
    assert kept.named("global/train/x") == [(0, 2.0), (1, 5.0)]


def test_what_comes_late_for_a_step_is_kept_together(kept: Keeps) -> None:
    """B3: as a second record of it, when the next step begins; and each value is reduced once."""
    cluster = cluster_of(kept)
    cluster.buffer_metrics({"x": (1.0, np.mean)})
    cluster.global_steps = 1
    cluster.buffer_metrics({"y": (0.0, np.mean)})
    for value in (3.0, 5.0):
        cluster.buffer_metrics_async({"x": (value, np.mean)}, Mode.TRAIN, 0)
    cluster.global_steps = 2
    cluster.buffer_metrics({"y": (0.0, np.mean)})
    cluster.close()
    assert kept.named("global/train/x") == [(0, 1.0), (0, 4.0)] and kept.named("global/train/y") == [(1, 0.0), (2, 0.0)]


def test_ragged_lists_are_not_dropped(kept: Keeps) -> None:
    """B5: they count by their elements."""
    cluster = cluster_of(kept)
    cluster.buffer_metrics({"x": ([1, 2], np.mean)})
    cluster.buffer_metrics({"x": ([1, 2, 3], np.mean)})
    cluster.close()
    assert kept.named("global/train/x") == [(0, pytest.approx(1.8))]


def test_mistakes_in_metrics_are_said_and_harm_nobody(kept: Keeps, capfd: pytest.CaptureFixture[str]) -> None:
    """A value without its reducer, a reducer that raises: the rest is logged."""
    cluster = cluster_of(kept)
    cluster.buffer_metrics({"x": 1.0})  # type: ignore[dict-item]
    cluster.buffer_metrics({"y": (1.0, lambda values: values.nonsense), "z": (1.0, None)})
    cluster.close()
    said = capfd.readouterr().err
    assert "'x' must be a pair" in said and "y is left out at step 0 (train)" in said
    assert kept.named("global/train/z") == [(0, 1.0)]
