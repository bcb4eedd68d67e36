"""`MetricsLogger`: named numbers by prefix, mode and step, with their history, sent to any backends.

Each logger has a run of its own, so loggers share nothing, and a closed one receives nothing. A value is in the journal
before `log` returns; backends get it on threads of their own, so a slow or failing one affects neither training nor the
others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

from chiplog.core import messages
from chiplog.core.background import forks
from chiplog.core.run import Run
from chiplog.frontends.tunix.backends import (
    BackendFactory,
    CluBackend,
    LoggingBackend,
    TensorboardBackend,
    WandbBackend,
)
from chiplog.frontends.tunix.metric_names import SAMPLES, other_names
from chiplog.frontends.tunix.options import MetricsLoggerOptions, start_run
from chiplog.frontends.tunix.value_history import ValueHistory
from chiplog.frontends.tunix.vectors import loggable
from chiplog.runtime.devices.pending_values import PendingValues

if TYPE_CHECKING:
    import numpy

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

PATIENCE = 10.0  # s that the end of a job waits for devices


class Mode(StrEnum):
    """Training or evaluation; the strings "train" and "eval" mean the same."""

    TRAIN = "train"
    EVAL = "eval"


class MetricsLogger:
    """Numbers under `{prefix}/{mode}/{name}`. Without options it only keeps their history."""

    def __init__(
        self, metrics_logger_options: MetricsLoggerOptions | None = None, *, otel_meter_provider: object = None
    ) -> None:
        options = metrics_logger_options
        self.run: Run | None = None if options is None else start_run(options, otel_meter_provider)
        self.current_step: Callable[[], int] | None = None  # set by a cluster, which traces with this logger's run
        self._deadline: float | None = None
        self._holds = PendingValues().holds
        self._histories: dict[tuple[str, str, str], ValueHistory] = {}  # by prefix, mode and name
        self._lock = threading.RLock()  # a signal handler may log too
        forks.watch(self)

    def log(
        self, metrics_prefix: str, metric_name: str, scalar_value: object, mode: Mode | str, step: int | None
    ) -> None:
        """Log a value; does not wait for one that is still on a device."""
        self.log_row({(metrics_prefix, metric_name): scalar_value}, mode, step)

    def log_row(self, metrics: Mapping[tuple[str, str], object], mode: Mode | str, step: int | None) -> None:
        """Log several values of a step, by prefix and name, as one row."""
        word = mode_of(mode)
        row = {}
        for (prefix, name), value in metrics.items():
            self._append(prefix, word, name, value)
            row[f"{prefix}/{word}/{name}".lstrip("/")] = loggable(value)
        if self.run is not None and row:
            self.run.log(row, step=step or 0)
            if self.current_step is not None:  # a row of an earlier step does not make that step the current one
                self.run.begin_step(self.current_step())

    def log_texts(self, samples: Sequence[Mapping[str, str]], mode: Mode | str, step: int | None) -> None:
        """Log texts of a step as rows of the table `rollouts`, with their mode."""
        if self.run is not None and samples:
            self.run.table(SAMPLES, [{"mode": mode_of(mode), **one} for one in samples], step=step or 0)

    def metric_exists(self, metrics_prefix: str, metric_name: str, mode: Mode | str) -> bool:
        return self._find(metrics_prefix, metric_name, mode) is not None

    def get_metric(self, metrics_prefix: str, metric_name: str, mode: Mode | str) -> float:
        """Return the mean over the whole run; for `perplexity` the geometric mean."""
        history = self._history(metrics_prefix, metric_name, mode)
        return history.geometric_mean() if metric_name.rpartition("/")[2] == "perplexity" else history.mean()

    def get_metric_history(self, metrics_prefix: str, metric_name: str, mode: Mode | str) -> numpy.ndarray[Any, Any]:
        """Return all values as an array, in the order in which they were logged; vectors are its rows."""
        array: numpy.ndarray[Any, Any] = self._history(metrics_prefix, metric_name, mode).array()
        return array

    def left(self) -> float:
        """Return the seconds for which the end of the job may still wait for devices, counted from the first call."""
        self._deadline = self._deadline or time.monotonic() + PATIENCE
        return max(0.0, self._deadline - time.monotonic())

    def close(self, timeout: float = 30.0) -> None:
        """Deliver what is left to the backends, within `timeout` seconds, and close them. May be called twice."""
        if self.run is not None:
            self.run.finish(timeout)

    def forked(self) -> None:
        """In a forked child, replace the lock, which would never be released."""
        self._lock = threading.RLock()

    def _append(self, prefix: str, mode: str, name: str, value: object) -> None:
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
        """Find a history by this name, or by another name of the same metric."""
        word = mode_of(mode)
        with self._lock:
            for one in ((prefix, name), *_other_names(prefix, name)):
                if (history := self._histories.get((one[0], word, one[1]))) is not None:
                    return history
        return None

    def _history(self, prefix: str, name: str, mode: Mode | str) -> ValueHistory:
        if (history := self._find(prefix, name, mode)) is not None:
            return history
        names = sorted("/".join(key).lstrip("/") for key in self._histories)
        missing = f"{prefix}/{mode_of(mode)}/{name}".lstrip("/")
        raise ValueError(f"Metric '{missing}' not found; available: {', '.join(names) or 'none yet'}")


def mode_of(mode: Enum | str) -> str:
    """Return `train` or `eval`, from either of Tunix's enums or from the string."""
    return str(getattr(mode, "value", mode))


def split(name: str) -> tuple[str, str]:
    """Split the name of a cluster's metric into a prefix, up to the first slash or `global`, and the rest."""
    prefix, slash, rest = name.partition("/")
    return (prefix, rest) if slash else ("global", name)


def _other_names(prefix: str, name: str) -> list[tuple[str, str]]:
    full = name if prefix in ("", "global") else f"{prefix}/{name}"
    return [split(one) for one in other_names(full)]
