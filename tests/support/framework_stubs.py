"""The documented hooks of frameworks that are not installed for the tests, as far as integrations use them."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import pytest


def integration(name: str, monkeypatch: pytest.MonkeyPatch, **modules: dict[str, Any]) -> Any:
    """An integration, imported with these modules in place of the framework's; `a__b` is the module `a.b`."""
    for dotted, names in modules.items():
        parts = dotted.replace("___internal", "__$internal").split("__")
        parts = [part.replace("$", "_") for part in parts]
        for count in range(1, len(parts) + 1):
            path = ".".join(parts[:count])
            if path not in sys.modules or count == len(parts):
                module = ModuleType(path)
                module.__path__ = []
                monkeypatch.setitem(sys.modules, path, module)
                if count > 1:
                    setattr(sys.modules[".".join(parts[: count - 1])], parts[count - 1], module)
        vars(sys.modules[".".join(parts)]).update(names)
    monkeypatch.delitem(sys.modules, f"chiplog.integrations.{name}", raising=False)
    module = importlib.import_module(f"chiplog.integrations.{name}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # and removed after the test
    return module


class LoggerCallback:
    """Ray Tune's base class, which the driver calls."""

    def on_trial_start(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
        self.log_trial_start(trial)

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **_: Any) -> None:
        self.log_trial_result(iteration, trial, result)

    def on_trial_save(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
        self.log_trial_save(trial)

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
        self.log_trial_end(trial, failed=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("log_trial"):
            return lambda *_, **__: None
        raise AttributeError(name)


class UserCallback:
    """Ray Train's base class, which its controller calls."""


class ControllerCallback:
    """Ray Train's base class for what follows the controller itself."""


class BasePlugin:
    """Axolotl's."""


class Ranks:
    """`deepspeed.comm`."""

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank

    def get_rank(self) -> int:
        return self.rank


def monitor_master() -> type:
    """DeepSpeed's class of this name; the integration changes it, so each test has its own."""

    class MonitorMaster:
        def __init__(self, monitor_config: Any) -> None:
            self.monitor_config, self.enabled = monitor_config, monitor_config.enabled
            self.written: list[Any] = []

        def write_events(self, event_list: list[Any]) -> None:
            self.written += event_list

    return MonitorMaster


class BaseLogger:
    """torchtitan's."""


class LoggerContainer(BaseLogger):
    def __init__(self) -> None:
        self.loggers: list[Any] = []

    def add_logger(self, logger: Any) -> None:
        self.loggers.append(logger)

    def log(self, metrics: dict[str, Any], step: int) -> None:
        for logger in self.loggers:
            logger.log(metrics, step)

    def close(self) -> None:
        for logger in self.loggers:
            logger.close()


class MetricsProcessor:
    @dataclass(kw_only=True, slots=True)
    class Config:
        save_for_all_ranks: bool = False
        enable_wandb: bool = False

    def __init__(self, config: Any, *, parallel_dims: Any, pp_schedule: str = "1F1B", config_dict: Any = None) -> None:
        self.logger = self._build_metric_logger(
            config=config, parallel_dims=parallel_dims, dump_folder="out", pp_schedule=pp_schedule,
            ft_enable=False, ft_replica_id=0, config_dict=config_dict, tag=None,
        )  # fmt: skip

    def _build_metric_logger(self, *, config: Any, **_: Any) -> Any:
        return LoggerContainer() if config.enable_wandb else BaseLogger()


def tracking() -> type:
    """verl's class `Tracking`."""

    class Tracking:
        supported_backend: ClassVar[list[str]] = ["wandb", "console"]

        def __init__(
            self, project_name: str, experiment_name: str, default_backend: Any = "console", config: Any = None
        ) -> None:
            for backend in [default_backend] if isinstance(default_backend, str) else default_backend:
                assert backend in self.supported_backend, f"{backend} is not supported"
            self.logger: dict[str, Any] = {}

        def log(self, data: dict[str, Any], step: int, backend: Any = None) -> None:
            for name, one in self.logger.items():
                if backend is None or name in backend:
                    one.log(data=data, step=step)

        def finish(self, exit_code: int = 0) -> None:
            self.finished = exit_code

    return Tracking
