"""The tracker: time, throughput, MFU, memory and averages of each step; a line and a row per interval."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import isfinite, nan
from time import perf_counter
from typing import Any

from chiplog.core import messages
from chiplog.core.values import convert
from chiplog.core.values.text import reason, words
from chiplog.frontends.kempnerforge.backends import LazyRun, TensorBoardBackend, WandBBackend, _LoggingBackend
from chiplog.frontends.kempnerforge.logger import format_metrics, get_logger, line
from chiplog.frontends.kempnerforge.memory import get_memory_stats
from chiplog.frontends.kempnerforge.mfu import NO_GPU, estimate_model_flops_per_token, get_gpu_peak_tflops
from chiplog.frontends.kempnerforge.own_backend import OwnBackend
from chiplog.metrics.flops import mfu
from chiplog.metrics.throughput import rate
from chiplog.runtime.ranks import detect

__all__ = ["MetricsTracker", "StepMetrics", "TensorBoardBackend", "WandBBackend", "_LoggingBackend"]

ALPHA = 0.1  # weight of the newest value in an average
SMOOTHED = ("loss", "tokens_per_sec", "mfu", "step_time")

logger = get_logger("metrics.tracker")


@dataclass
class StepMetrics:
    """The measurements of one step, without smoothing."""

    loss: float = 0.0
    grad_norm: float = 0.0
    lr: float = 0.0
    tokens_per_sec: float = 0.0
    mfu: float = 0.0
    step_time_sec: float = 0.0
    allocated_gb: float = 0.0
    peak_gb: float = 0.0
    reserved_gb: float = 0.0
    total_gb: float = 0.0
    mem_utilization: float = 0.0


class MetricsTracker:
    """Collects, smooths and reports; call `start_step` before and `end_step` after each training step.

    Without a known peak the MFU is 0.0; `compat=True` guesses like the original.
    """

    def __init__(
        self, config: Any, num_gpus: int = 1, gpu_peak_tflops: float | None = None, *, compat: bool = False
    ) -> None:
        self.metrics_config = config.metrics
        self.model_config = config.model
        self.seq_len = config.train.seq_len
        self.num_gpus = num_gpus
        self.gpu_peak_tflops = gpu_peak_tflops or get_gpu_peak_tflops(None, compat=compat)
        self._peak_is_given = bool(gpu_peak_tflops)
        self._compat = compat
        self._job = config
        self._ema_alpha = ALPHA
        self._smoothed: dict[str, float] = {}
        self.nan_count = 0  # values that were left out of the averages, because they were not finite
        self._flops: int | None = None  # per token; computed once
        self._step_start = 0.0  # before the first step
        self._lock = threading.Lock()
        self._lazy_run: LazyRun | None = None
        self._backends: list[Any] = []
        self._own: list[OwnBackend] = []  # those that the user has added
        self._backends_initialized = False
        self._first_rank: bool | None = None  # determined with the first row, when the ranks are set up

    def init_backends(self, config: Any) -> None:
        """Choose the backends, once, when the ranks are set up; nothing starts before the first row."""
        if self._backends_initialized:
            return
        self._backends_initialized = True
        if not self._is_first_rank():
            return
        chosen = config.metrics
        lazy_run = LazyRun(
            chosen, wandb=chosen.enable_wandb, tensorboard=chosen.enable_tensorboard, about=_plain(config)
        )
        if chosen.enable_wandb:
            self._backends.append(WandBBackend(chosen, lazy_run))
        if chosen.enable_tensorboard:
            self._backends.append(TensorBoardBackend(chosen, lazy_run))
        self._lazy_run = lazy_run

    _init_backends = init_backends

    def start_step(self) -> None:
        """Mark the start of a training step."""
        self._step_start = perf_counter()

    def end_step(self, step: int, loss: float, grad_norm: float, lr: float, tokens_in_step: int) -> StepMetrics | None:
        """Mark the end of a step; returns its metrics if it is logged (the first and every `log_interval`-th).

        Never raises: a value that is not a number causes a warning, and the step is left out.
        """
        try:
            seconds = self._seconds()
            if type(step) is not int:
                step = _step(step)
            if type(tokens_in_step) is not int:
                tokens_in_step = _number("tokens_in_step", tokens_in_step)  # type: ignore[assignment]
            speed = rate(tokens_in_step, seconds)
            if self._flops is None:
                self._flops = self._count()
            share = mfu(self._flops, speed, self.gpu_peak_tflops, self.num_gpus) or 0.0
            if type(loss) is not float:
                loss = _number("loss", loss)  # a number, since the averages would keep the graph of a tensor alive
            is_logged = step == 1 or step % self.metrics_config.log_interval == 0
            # If it is not logged, a number may stay on a GPU.
            if type(grad_norm) is not float and (is_logged or not hasattr(grad_norm, "__float__")):
                grad_norm = _number("grad_norm", grad_norm)
            if type(lr) is not float and (is_logged or not hasattr(lr, "__float__")):
                lr = _number("lr", lr)
            smooth = self._update_smoothed
            smooth("loss", loss)
            smooth("tokens_per_sec", speed)
            smooth("mfu", share)
            smooth("step_time", seconds)
            if not is_logged:
                return None
            metrics = StepMetrics(loss, grad_norm, lr, speed, share, seconds, **_memory())
            self._log_step(step, metrics)
            return metrics
        except Exception as error:
            self._failed("end_step", error)
            return None

    def _log_step(self, step: int, metrics: StepMetrics) -> None:
        """The line and the row of a step, on the first rank."""
        if self._is_first_rank():
            logger.info(format_step(step, metrics))
            self._report(self._row(metrics), step)

    def log_eval(self, metrics: Mapping[str, object], step: int) -> None:
        """Report any metrics unchanged, in a line and to all backends."""
        try:
            if type(step) is not int:
                step = _step(step)
            if self._is_first_rank():
                logger.info(format_metrics(step, metrics))
                self._report(metrics, step)
        except Exception as error:
            self._failed("log_eval", error)

    def close(self) -> None:
        """Flush and close all backends."""
        if self._lazy_run is not None:
            self._lazy_run.close()
        for backend in self._other_backends():
            backend.close()

    def _update_smoothed(self, key: str, value: float) -> None:
        """Add a value to an average; one of your own is reported as `smoothed/{key}`, after ours."""
        if type(value) is not float:
            value = float(value)
        if not isfinite(value):
            self.nan_count += 1
            return
        smoothed = self._smoothed
        if (before := smoothed.get(key)) is not None:
            alpha = self._ema_alpha
            value = alpha * value + (1 - alpha) * before
        smoothed[key] = value

    def state(self) -> dict[str, object]:
        """The state for a checkpoint, so that the averages continue."""
        return {"nan_count": self.nan_count, "smoothed": dict(self._smoothed)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.nan_count = int(state.get("nan_count", 0))
        self._smoothed = {name: float(value) for name, value in state.get("smoothed", {}).items()}

    def _seconds(self) -> float:
        """The seconds since the last `start_step`."""
        started = self._step_start
        if not started:
            if messages.first(f"kempnerforge start {id(self)}"):
                logger.warning("end_step() without start_step(): the step has no duration")
            return 0.0
        return perf_counter() - started

    def _count(self) -> int:
        if not self._peak_is_given and self.gpu_peak_tflops in (None, NO_GPU):
            # When the tracker was created, nothing had run on a GPU yet.
            self.gpu_peak_tflops = get_gpu_peak_tflops(None, compat=self._compat)
        try:
            return estimate_model_flops_per_token(self.model_config, self.seq_len)
        except Exception as error:  # a model that does not fit the formula must not stop its training
            logger.warning(f"there is no MFU: {reason(error)}")
            return 0

    def _row(self, metrics: StepMetrics) -> dict[str, float]:
        row = {
            "train/loss": metrics.loss,
            "train/grad_norm": metrics.grad_norm,
            "train/lr": metrics.lr,
            "train/tokens_per_sec": metrics.tokens_per_sec,
            "train/mfu": metrics.mfu,
            "train/step_time_sec": metrics.step_time_sec,
            "gpu/allocated_gb": metrics.allocated_gb,
            "gpu/peak_gb": metrics.peak_gb,
            "gpu/reserved_gb": metrics.reserved_gb,
            "gpu/mem_utilization": metrics.mem_utilization,
        }
        for name in dict.fromkeys((*SMOOTHED, *self._smoothed)):
            row[f"smoothed/{name}"] = self._smoothed.get(name, nan)
        return row

    def _report(self, metrics: Mapping[str, object], step: int) -> None:
        if self._lazy_run is None:
            with self._lock:
                self._lazy_run = self._lazy_run or LazyRun(self.metrics_config, about=_plain(self._job))
        self._lazy_run.log(metrics, step)
        for backend in self._other_backends():
            backend.log(metrics, step)

    def _other_backends(self) -> list[OwnBackend]:
        """Backends that the user has added to ours."""
        others = [
            one
            for one in self._backends
            if self._lazy_run is None or getattr(one, "_lazy_run", None) is not self._lazy_run
        ]
        wrapped = {id(one.native): one for one in self._own}
        self._own = [wrapped.get(id(one)) or OwnBackend(one) for one in others]
        return self._own

    def _failed(self, method: str, error: Exception) -> None:
        why = str(error) if isinstance(error, _NotANumber) else words(error)
        if messages.first(f"kempnerforge {method} {id(self)} {why}"):
            logger.warning(f"{method}: {why}; training continues")

    def _is_first_rank(self) -> bool:
        if self._first_rank is None:
            self._first_rank = detect.detect(os.environ).rank == 0
        return self._first_rank


class _NotANumber(ValueError):
    pass


def _number(name: str, value: object) -> float:
    """A value as a number; it may be a tensor, an array or a text."""
    try:
        number = float(value) if isinstance(value, str) else convert.number(value)
    except ValueError:
        number = None
    if number is None:
        raise _NotANumber(f"{name} is not a number but {convert.text(value):.100}, so this call is left out")
    return float(number)


def _step(value: object) -> int:
    """A value as a step; a fraction stays one."""
    number = _number("step", value)
    return int(number) if number.is_integer() else number  # type: ignore[return-value]


def _memory() -> dict[str, float]:
    stats = get_memory_stats(None)
    return {**stats, "mem_utilization": stats["peak_gb"] / stats["total_gb"] if stats["total_gb"] else 0.0}


def format_step(step: int, metrics: StepMetrics) -> str:
    """The line of a step."""
    return line(
        step,
        (
            ("loss", f"{metrics.loss:.4f}"),
            ("lr", f"{metrics.lr:.2e}"),
            ("grad_norm", f"{metrics.grad_norm:.3f}"),
            ("tok/s", f"{metrics.tokens_per_sec:,.0f}"),
            ("mfu", f"{metrics.mfu:.1%}"),
            ("mem", f"{metrics.peak_gb:.1f}/{metrics.total_gb:.0f}GB"),
            ("step_time", f"{metrics.step_time_sec:.2f}s"),
        ),
    )


def _plain(config: object, depth: int = 8) -> object:
    """A config of objects as mappings; anything nested too deeply, such as a circular reference, is left out."""
    if depth == 0:
        return None
    if isinstance(config, Mapping):
        return {str(name): _plain(value, depth - 1) for name, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [_plain(value, depth - 1) for value in config]
    is_object = hasattr(config, "__dict__") and not callable(config) and not isinstance(config, Enum)
    return _plain(vars(config), depth) if is_object else config
