"""The configs of trainers and clusters: the original's defaults, and copies with changes."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from chiplog.frontends.tunix.rl.rl_cluster import ClusterConfig, RLTrainingConfig
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLoggerOptions
from chiplog.frontends.tunix.sft.peft_trainer import TrainingConfig


def test_a_config_can_be_replaced_as_a_dataclass() -> None:
    """With the settings that were added to it, too."""
    options = MetricsLoggerOptions("logs")
    config = TrainingConfig(eval_every_n_steps=100, metrics_logging_options=options, mine=7)
    changed = dataclasses.replace(config, max_steps=3)
    assert isinstance(changed, TrainingConfig) and config.max_steps is None
    assert (changed.max_steps, changed.eval_every_n_steps, changed.mine) == (3, 100, 7)
    assert changed.metrics_logging_options is options
    assert dataclasses.is_dataclass(config) and dataclasses.asdict(changed)["mine"] == 7
    assert "pbar_description" in {field.name for field in dataclasses.fields(TrainingConfig)}


def test_configs_of_a_cluster_can_be_replaced_too() -> None:
    """The options of tracing stay options."""
    config = RLTrainingConfig(actor_optimizer="sgd", perf_metrics_options={"enable_perf_v2": True})
    changed = dataclasses.replace(config, mini_batch_size=8)
    assert changed.mini_batch_size == 8 and changed.perf_metrics_options == config.perf_metrics_options
    cluster = dataclasses.replace(
        ClusterConfig(role_to_mesh={"actor": "m"}, training_config=config), rollout_engine="x"
    )
    assert cluster.role_to_mesh == {"actor": "m"} and cluster.training_config is config


def test_a_setting_that_was_not_given_has_the_default_of_the_original() -> None:
    """One that neither has is an error, as a misspelt one should be."""
    config = TrainingConfig()
    assert (config.checkpoint_root_directory, config.data_sharding_axis) == (None, ("fsdp",))
    assert (config.max_inflight_computations, config.pbar_description) == (2, "Training")
    assert config.get_with_default("max_steps", 5) == 5
    rl = RLTrainingConfig()
    assert (rl.mini_batch_size, rl.compute_logps_chunk_size, rl.profiler_options) == (None, 0, None)
    cluster = ClusterConfig()
    assert (cluster.rollout_engine, cluster.offload_to_cpu, cluster.rollout_config) == ("vanilla", False, None)
    with pytest.raises(AttributeError, match="max_step"):
        _ = config.max_step


def test_a_config_can_be_copied_and_pickled() -> None:
    """As the original copies it for every role."""
    config = RLTrainingConfig(mini_batch_size=4, mine=7)
    for copied in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert copied == config and copied.mine == 7
