"""The logger for torchtitan, with copies of its classes."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.framework_runs import stored_runs
from tests.support.framework_stubs import BaseLogger, LoggerContainer, MetricsProcessor, integration

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch

CLASSES = {"BaseLogger": BaseLogger, "LoggerContainer": LoggerContainer, "MetricsProcessor": MetricsProcessor}


@pytest.fixture
def torchtitan(monkeypatch: pytest.MonkeyPatch) -> Any:
    modules = {"torchtitan__components__metrics": {**CLASSES, "_get_metrics_rank": lambda **_: 3}}
    return integration("torchtitan", monkeypatch, torchtitan={}, torchtitan__components={}, **modules)


@pytest.mark.parametrize("wandb", [False, True])
def test_the_process_that_logs_keeps_the_run(torchtitan: Any, monkeypatch: pytest.MonkeyPatch, wandb: bool) -> None:
    """With pipeline stages it is not the first; nested metrics and the job's config are kept."""
    config = torchtitan.ChiplogMetricsProcessor.Config(enable_wandb=wandb)
    with monkeypatch.context() as job:
        job.setattr(torch.distributed, "is_initialized", lambda: True)
        job.setenv("WORLD_SIZE", "4")
        for rank in range(4):
            job.setenv("RANK", str(rank))
            job.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
            job.setattr(torch.distributed, "get_world_size", lambda: 4)
            processor = torchtitan.ChiplogMetricsProcessor(config, parallel_dims=None, config_dict={"lr": 0.1})
            if rank == 3:
                processor.logger.log({"loss_metrics/global_avg_loss": 1.0, "memory": {"max": 2}}, 5)
                processor.logger.close()
    [run] = stored_runs()
    assert run.series("loss_metrics/global_avg_loss").steps.tolist() == [5] and run.config["lr"] == 0.1
    assert "memory/max" in run.names() and run.state == "finished"


def test_other_versions(torchtitan: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Other arguments: a line, and torchtitan's own loggers."""
    built = SimpleNamespace()
    assert torchtitan._with_logger(built, {}) is built
    logger = torchtitan.ChiplogLogger()
    logger.log()
    logger.close()
    logger.close()
    assert capsys.readouterr().err.count("chiplog works with 0.3") == 2
