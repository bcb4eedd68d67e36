"""torchtitan: `metrics=ChiplogMetricsProcessor.Config()`, from `chiplog.integrations.torchtitan`, in its config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torchtitan.components import metrics

from chiplog.core.run import Run
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

TORCHTITAN = Framework("torchtitan", "torchtitan", "0.3")


class ChiplogLogger(metrics.BaseLogger):
    """Records the metrics of torchtitan, in the process that logs: with pipeline stages, one of the last stage."""

    def __init__(self, run: Run | None = None, config: object = None, **settings: Any) -> None:
        self._hooks = FrameworkRun("torchtitan", run, **settings)
        self._hooks.start(config)

    @hook(TORCHTITAN, None)
    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        self._hooks.log(metrics, step)

    @hook(TORCHTITAN, None)
    def close(self) -> None:
        self._hooks.end()


class ChiplogMetricsProcessor(metrics.MetricsProcessor):
    """torchtitan's own, with a `ChiplogLogger` next to the other loggers."""

    @dataclass(kw_only=True, slots=True)
    class Config(metrics.MetricsProcessor.Config):
        pass

    def _build_metric_logger(self, **options: Any) -> Any:
        built = super()._build_metric_logger(**options)
        return _with_logger(built, options)


def _with_logger(built: Any, options: Mapping[str, Any]) -> Any:
    """The loggers that torchtitan has built, and ours in the process that logs."""
    added = _added(options)
    if added is None:
        return built
    container = built if isinstance(built, metrics.LoggerContainer) else metrics.LoggerContainer()
    container.add_logger(added)
    return container


NO_LOGGER: ChiplogLogger | None = None


@hook(TORCHTITAN, NO_LOGGER)
def _added(options: Mapping[str, Any]) -> ChiplogLogger | None:
    if not options["config"].save_for_all_ranks:
        chosen = metrics._get_metrics_rank(parallel_dims=options["parallel_dims"], pp_schedule=options["pp_schedule"])
        if torch.distributed.is_initialized() and torch.distributed.get_rank() != chosen:
            return None
    tag = options.get("tag")
    return ChiplogLogger(config=options.get("config_dict"), **({"name": tag} if tag else {}))
