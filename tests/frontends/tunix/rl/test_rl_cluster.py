"""The cluster shell of the Tunix front end; the numbers B1 to B7 are those of the acceptance list."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

import numpy as np
import pytest

import chiplog
from chiplog.frontends.tunix.rl import rl_cluster
from chiplog.frontends.tunix.rl.rl_cluster import ClusterConfig, MetricsBuffer, RLCluster, RLTrainingConfig
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLoggerOptions, Mode
from chiplog.metrics import rl
from tests.frontends.tunix.backend import Keeps


@pytest.fixture
def kept() -> Keeps:
    return Keeps()


def cluster_of(kept: Keeps, **more: Any) -> RLCluster:
    options = MetricsLoggerOptions("logs", backend_factories=[lambda: kept])
    config = ClusterConfig(training_config=RLTrainingConfig(metrics_logging_options=options))
    return RLCluster(cluster_config=config, **more)


def test_a_step_is_logged_when_the_next_one_begins(kept: Keeps) -> None:
    """B1: each metric under the part before its first slash, or `global`."""
    cluster = cluster_of(kept)
    for score, most in ((1.0, [1, 2]), (2.0, [3, 9])):
        cluster.buffer_metrics({"rewards/score/mean": (score, np.mean), "m": (most, np.max)}, mode=Mode.TRAIN)
    logger = cluster.metrics_logger
    assert not logger.metric_exists("global", "m", "train")
    cluster.global_steps = 1
    cluster.buffer_metrics({"m": (0.0, np.max)})
    assert logger.get_metric("rewards", "score/mean", "train") == 1.5
    assert logger.get_metric("score", "mean", "train") == 1.5  # by its documented name
    assert logger.get_metric("global", "m", "train") == 9.0
    cluster.close()
    assert kept.named("rewards/train/score/mean") == [(0, 1.5)]
    assert kept.named("global/train/m") == [(0, 9.0), (1, 0.0)]


class Other(Enum):
    """The other enum of the original, which is not a text."""

    TRAIN = "train"
    EVAL = "eval"


@pytest.mark.parametrize("mode", ["eval", Mode.EVAL, Other.EVAL])
def test_an_evaluation_may_come_first(mode: Any, kept: Keeps) -> None:
    """B2: it is logged as one, at its step, whatever the mode is spelled like."""
    cluster = cluster_of(kept)
    cluster.buffer_metrics({"rewards/mean": (1.0, np.mean)}, mode)
    cluster.buffer_metrics({"rewards/mean": (2.0, np.mean)})
    cluster.close()
    assert kept.named("rewards/eval/mean") == [(0, 1.0)] and kept.named("rewards/train/mean") == [(0, 2.0)]


def test_texts_are_rows_of_a_table_and_no_scalars(kept: Keeps) -> None:
    """B4: with their step; they can be paged through later."""
    cluster = cluster_of(kept)
    for step in range(3):
        cluster.global_steps = step
        cluster.buffer_metrics(rl.samples([f"p{step}", "q"], ["c", "d"]))
        for ident in (f"{step}_0", f"{step}_1"):
            cluster.buffer_metrics({"trajectory_ids": (ident, None)})
    cluster.close()
    assert kept.events == [] and cluster.metrics_logger.run is not None
    stored = chiplog.read(cluster.metrics_logger.run.dir)
    assert list(stored.table("rollouts", where={"step": 1})) == [
        {"step": 1, "mode": "train", "prompt": "p1", "completion": "c", "trajectory_id": "1_0"},
        {"step": 1, "mode": "train", "prompt": "q", "completion": "d", "trajectory_id": "1_1"},
    ]
    assert [row["trajectory_id"] for row in stored.table("rollouts", offset=4, limit=1)] == ["2_0"]


def test_trajectory_ids_that_are_numbers_are_identifiers(kept: Keeps) -> None:
    """They are in the table, and no metric is made of them, whatever reducer comes with them."""
    cluster = cluster_of(kept)
    cluster.buffer_metrics({**rl.samples(["p", "q"], ["c", "d"]), "trajectory_ids": (np.array([0, 1]), None)})
    cluster.global_steps = 1
    cluster.buffer_metrics({"trajectory_ids": ([7, 8], np.mean)})
    cluster.close()
    assert kept.events == [] and cluster.metrics_logger.run is not None
    rows = list(chiplog.read(cluster.metrics_logger.run.dir).table("rollouts"))
    assert [(row["step"], row["trajectory_id"]) for row in rows] == [(0, "0"), (0, "1"), (1, "7"), (1, "8")]
    assert [row.get("prompt") for row in rows] == ["p", "q", None, None]


def test_closing_logs_what_is_left_once(kept: Keeps) -> None:
    """B6: however often it is closed, and with two trainers on the same logger."""
    cluster = cluster_of(kept, actor="model", critic="model")
    cluster.buffer_metrics({"x": (1.0, None)})
    cluster.buffer_metrics({"x": (2.0, None)}, Mode.EVAL)
    cluster.actor_trainer.with_step_fn(lambda batch: 3.0).train(range(1))
    cluster.close()
    cluster.close()
    assert kept.named("global/train/x") == [(0, 1.0)] and kept.named("global/eval/x") == [(0, 2.0)]
    assert kept.named("actor/train/loss") == [(1, 3.0)] and kept.closed == 1


def test_rewards_are_reduced_over_functions_and_prompts(kept: Keeps) -> None:
    """B7: a matrix with a judgement missing."""
    cluster = cluster_of(kept)
    cluster.buffer_metrics(rl.rewards([[1, math.nan], [2, 4]], ["format", "answer"]))
    cluster.close()
    assert kept.named("rewards/train/sum") == [(0, 3.5)] and kept.named("rewards/train/mean") == [(0, 2.0)]
    assert kept.named("rewards/train/format") == [(0, 1.5)]


def test_an_external_logger_gets_the_calls_as_they_came(kept: Keeps, capfd: pytest.CaptureFixture[str]) -> None:
    """And when it fails, nobody else does."""
    seen: list[MetricsBuffer] = []

    def external(buffer: MetricsBuffer) -> None:
        seen.append(buffer)
        raise RuntimeError("no wind")

    cluster = cluster_of(kept).with_external_metrics_logger(external)
    cluster.buffer_metrics({"x": (1.0, np.mean)})
    cluster.buffer_metrics({"x": (3.0, np.mean)})
    cluster.close()
    assert seen == [MetricsBuffer(0, {"x": ([1.0, 3.0], np.mean)}, "train")]
    assert kept.named("global/train/x") == [(0, 2.0)] and "no wind" in capfd.readouterr().err


def test_the_newer_name_of_the_class_is_there() -> None:
    """Programs use either."""
    assert rl_cluster.RLEngine is RLCluster


def test_other_arguments_are_kept() -> None:
    """Of the configs and of the cluster."""
    config = ClusterConfig(offload_to_cpu=True, training_config=RLTrainingConfig(mini_batch_size=4))
    cluster = RLCluster(actor="m", tokenizer="t", cluster_config=config, reference="r")
    assert config.offload_to_cpu and config.training_config.mini_batch_size == 4 and config.role_to_mesh == {}
    assert cluster.actor == "m" and cluster.tokenizer == "t" and cluster.others == {"reference": "r"}
