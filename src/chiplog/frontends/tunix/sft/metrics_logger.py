"""`MetricsLogger`: named numbers by prefix, mode and step, with their history, to any backends.

Each logger has a run of its own, so nothing is shared: no listeners of the process, no values of another logger, and
nothing after `close`. What is logged is in the journal before `log` returns; backends get it on threads of their own,
so one that is slow or raises disturbs neither the training nor the others.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from chiplog.core import messages
from chiplog.core.background import forks
from chiplog.core.run import Run
from chiplog.frontends.tunix import backends
from chiplog.frontends.tunix.backends import (
    BackendFactory,
    CluBackend,
    LoggingBackend,
    TensorboardBackend,
    WandbBackend,
)
from chiplog.frontends.tunix.metric_names import SAMPLES, other_names
from chiplog.frontends.tunix.value_history import ValueHistory
from chiplog.frontends.tunix.vectors import loggable
from chiplog.runtime.devices.pending_values import PendingValues

__all__ = [
    "BackendFactory",
    "CluBackend",
    "LoggingBackend",
    "MetricsLogger",
    "MetricsLoggerOptions",
    "Mode",
    "TensorboardBackend",
    "WandbBackend",
]


PATIENCE = 10.0  # s that the end waits for devices


class Mode(StrEnum):
    """Of training or of evaluation; the words "train" and "eval" do as well."""

    TRAIN = "train"
    EVAL = "eval"


@dataclasses.dataclass
class MetricsLoggerOptions:
    """How a logger is made: plain data and factories, never a live object, so it can be copied and changed at will."""

    log_dir: str
    project_name: str = "tunix"
    run_name: str = ""  # the time it begins, 2025-01-14_08-40-01, where none is given
    flush_every_n_steps: int = 100  # TensorBoard has every value sooner: within half a second
    backend_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    backend_factories: Sequence[BackendFactory] = ()
    enable_opentelemetry: bool = dataclasses.field(default=False, kw_only=True)

    def create_backends(self) -> list[LoggingBackend]:
        """Backends of these options, made anew with every call, for use on their own."""
        return backends.create(self)


class MetricsLogger:
    """Numbers under `{prefix}/{mode}/{name}`. Without options it keeps the history and nothing else."""

    def __init__(
        self, metrics_logger_options: MetricsLoggerOptions | None = None, *, otel_meter_provider: Any = None
    ) -> None:
        options = metrics_logger_options
        self.run: Run | None = None if options is None else backends.begin(options, otel_meter_provider)
        self.current_step: Callable[[], int] | None = None  # of those who trace with the logger's run
        self._deadline: float | None = None
        self._holds = PendingValues().holds
        self._histories: dict[tuple[str, str, str], ValueHistory] = {}  # prefix, mode, name
        self._lock = threading.RLock()  # a signal handler may log too
        forks.watch(self)

    def log(self, metrics_prefix: str, metric_name: str, scalar_value: Any, mode: Mode | str, step: int | None) -> None:
        """Record a value; one still on a device is not waited for."""
        self.log_row({(metrics_prefix, metric_name): scalar_value}, mode, step)

    def log_row(self, metrics: Mapping[tuple[str, str], Any], mode: Mode | str, step: int | None) -> None:
        """Record several values of a step at once, by prefix and name, as one row."""
        word = mode_of(mode)
        row = {}
        for (prefix, name), value in metrics.items():
            self._remember(prefix, word, name, value)
            row[f"{prefix}/{word}/{name}".lstrip("/")] = loggable(value)
        if self.run is not None and row:
            self.run.log(row, step=0 if step is None else step)
            if self.current_step is not None:  # what is said about an earlier step does not make it the current one
                self.run.begin_step(self.current_step())

    def log_texts(self, samples: Sequence[Mapping[str, str]], mode: Mode | str, step: int | None) -> None:
        """Record texts of a step as rows of the table `rollouts`, with their mode."""
        if self.run is not None and samples:
            self.run.table(
                SAMPLES, [{"mode": mode_of(mode), **one} for one in samples], step=0 if step is None else step
            )

    def metric_exists(self, metrics_prefix: str, metric_name: str, mode: Mode | str) -> bool:
        return self._find(metrics_prefix, metric_name, mode) is not None

    def get_metric(self, metrics_prefix: str, metric_name: str, mode: Mode | str) -> float:
        """The mean over the whole run; of `perplexity` the geometric one."""
        history = self._history(metrics_prefix, metric_name, mode)
        return history.geometric_mean() if metric_name.rpartition("/")[2] == "perplexity" else history.mean()

    def get_metric_history(self, metrics_prefix: str, metric_name: str, mode: Mode | str) -> Any:
        """All values in the order they came, as an array; vectors are its rows."""
        return self._history(metrics_prefix, metric_name, mode).array()

    def left(self) -> float:
        """The seconds for which the end may still wait for devices; they count from the first time somebody asks."""
        self._deadline = self._deadline or time.monotonic() + PATIENCE
        return max(0.0, self._deadline - time.monotonic())

    def close(self, timeout: float = 30.0) -> None:
        """Let the backends have what is left, for so many seconds, and close them. Closing twice is closing once."""
        if self.run is not None:
            self.run.finish(timeout)

    def forked(self) -> None:
        """In a forked child: nobody holds the lock here."""
        self._lock = threading.RLock()

    def _remember(self, prefix: str, mode: str, name: str, value: Any) -> None:
        with self._lock:
            key = prefix, mode, name
            history = self._histories.get(key) or ValueHistory(self._holds)
            try:
                history.append(value)
            except Exception as error:
                messages.once(f"tunix history {key}", f"{prefix}/{mode}/{name}: {error}; it is not in the history")
                return
            self._histories[key] = history

    def _find(self, prefix: str, name: str, mode: Mode | str) -> ValueHistory | None:
        """By the name asked for, or another of the same metric."""
        word = mode_of(mode)
        with self._lock:
            for one in ((prefix, name), *_others(prefix, name)):
                if (history := self._histories.get((one[0], word, one[1]))) is not None:
                    return history
        return None

    def _history(self, prefix: str, name: str, mode: Mode | str) -> ValueHistory:
        if (history := self._find(prefix, name, mode)) is not None:
            return history
        there = sorted("/".join(key).lstrip("/") for key in self._histories)
        asked = f"{prefix}/{mode_of(mode)}/{name}".lstrip("/")
        raise ValueError(f"Metric '{asked}' not found; there are: {', '.join(there) or 'none yet'}")


def mode_of(mode: Any) -> str:
    """`train` or `eval`, from either enum of the original or from the word."""
    return str(getattr(mode, "value", mode))


def split(name: str) -> tuple[str, str]:
    """Prefix and name of a cluster's metric: what stands before the first slash, or `global`."""
    prefix, slash, rest = name.partition("/")
    return (prefix, rest) if slash else ("global", name)


def _others(prefix: str, name: str) -> list[tuple[str, str]]:
    full = name if prefix in ("", "global") else f"{prefix}/{name}"
    return [split(one) for one in other_names(full)]
