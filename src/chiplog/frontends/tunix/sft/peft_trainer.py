"""`PeftTrainer`: the metrics of a trainer around a step function of yours. It does not train.

It owns the metrics logger, the timing of steps and what the micro-batches of a step say; the function it is given does
the rest, and returns the loss with whatever else is to be logged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from chiplog.core import messages
from chiplog.frontends.tunix.backends import is_first
from chiplog.frontends.tunix.config_base import Config
from chiplog.frontends.tunix.sft import system_metrics_calculator as operations
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger, MetricsLoggerOptions, Mode
from chiplog.frontends.tunix.step_buffer import Gathering
from chiplog.metrics.rl import perplexity, step_times
from chiplog.metrics.step_values.buffer import Gathered
from chiplog.metrics.step_values.reducers import MetricsT, Reducer
from chiplog.runtime.devices.flop_counter import count_jax

StepFn = Callable[..., Any]
BATCH_SIZES = ("train_micro_batch_size", "mini_batch_size", "batch_size")  # of a config, the nearest first


class TrainingConfig(Config):
    """What a trainer is given; arguments that mean nothing here are kept as attributes."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "eval_every_n_steps": None,
        "max_steps": None,
        "gradient_accumulation_steps": None,
        "checkpoint_root_directory": None,
        "checkpointing_options": None,
        "metrics_logging_options": None,
        "profiler_options": None,
        "perf_metrics_options": None,
        "data_sharding_axis": ("fsdp",),
        "max_inflight_computations": 2,
        "metrics_prefix": "",
        "pbar_description": "Training",
        "max_seq_token_per_tpu": None,
        "max_segments_per_packed_row": None,
    }

    eval_every_n_steps: int | None
    max_steps: int | None
    gradient_accumulation_steps: int | None
    metrics_logging_options: MetricsLoggerOptions | None
    metrics_prefix: str


class LossOutput(msgspec.Struct, frozen=True):
    """What a step function may return: a loss, plain or weighted, and other values by name."""

    loss: Any
    aux_metrics: Mapping[str, Any] = {}


class PeftTrainer:
    """Times the steps of a training and logs what they return, `{prefix}/train/loss` and so on; steps count from 1."""

    def __init__(
        self,
        model: Any = None,
        optimizer: Any = None,
        training_config: TrainingConfig | None = None,
        *,
        metrics_logger: MetricsLogger | None = None,
        flops_per_step: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
        **others: Any,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.config = training_config or TrainingConfig()
        self.others = others
        self.metrics_prefix: str = self.config.metrics_prefix
        self.metrics_logger = metrics_logger or MetricsLogger(self.config.metrics_logging_options)
        self.train_steps = 0
        self.flops_per_step = flops_per_step
        self._clock = clock
        self._reducers: dict[str, Reducer | None] = {}
        self._step_fn: StepFn | None = None
        self._eval_fn: StepFn | None = None
        self._gathering = Gathering(self.metrics_logger, self._bring)
        self._micro = 0
        self._began: float | None = None
        self._flops = 0.0  # of the step so far, where nobody gives them
        self._counted: float | None = None  # of a batch, by the compiler; 0: it cannot say
        self._params: int | None = None
        self._returned: set[str] = set()  # the names of what step functions have returned

    def with_step_fn(self, step_fn: StepFn, eval_fn: StepFn | None = None) -> PeftTrainer:
        """The functions that do the work, each called with a batch; `eval_fn` is `step_fn` unless it is given."""
        self._step_fn, self._eval_fn = step_fn, eval_fn or step_fn
        return self

    def with_rl_metrics_to_log(self, reducers: Mapping[str, Reducer | None]) -> None:
        """How the values of several micro-batches become one, by name; the mean where nothing is said."""
        self._reducers |= reducers

    def train(self, train_ds: Iterable[Any], eval_ds: Iterable[Any] | None = None) -> None:
        """Go through the batches: a step for each, or for as many as gradients are accumulated over."""
        if self._step_fn is None:
            raise ValueError("a trainer needs a function that does the work: trainer.with_step_fn(step_fn)")
        every, most = self.config.eval_every_n_steps, self.config.max_steps
        batches = iter(train_ds)
        while most is None or self.train_steps < most:  # a batch that is not needed is not asked for
            try:
                batch = next(batches)
            except StopIteration:
                break
            self.begin_step()
            ended = self.end_micro_step(self._step_fn(batch), batch)
            if ended and eval_ds is not None and every and self.train_steps % every == 0:
                self.evaluate(eval_ds)

    def evaluate(self, eval_ds: Iterable[Any]) -> None:
        """One record for all batches of an evaluation, at the number of steps trained so far."""
        if self._eval_fn is None:
            raise ValueError("a trainer needs a function that evaluates: trainer.with_step_fn(step_fn, eval_fn)")
        for batch in eval_ds:
            self._gathering.add(self._metrics(self._eval_fn(batch)), Mode.EVAL, self.train_steps)
        self._gathering.complete(before=self.train_steps + 1)
        self._began = None  # what an evaluation takes is no part of the next step

    def begin_step(self) -> None:
        """The clock of a step begins where the one before ended, or here."""
        if self._began is None:
            self._began = self._clock()

    def end_micro_step(self, output: Any, batch: Any = None) -> bool:
        """Take what a step function returned along; true when that was the last micro-batch of a step.

        A loss, a mapping with `loss` in it, a pair (loss, mapping), or a `LossOutput`. With the batch, the operations
        of the step are estimated from its tokens; without, from the batch size of the config.
        """
        step = self.train_steps + 1
        self._gathering.add(self._metrics(output), Mode.TRAIN, step)
        self._micro += 1
        if self.flops_per_step is None:
            self._flops += self._operations(batch)
        if self._micro < (self.config.gradient_accumulation_steps or 1):
            return False
        self._micro, self.train_steps = 0, step
        self._gathering.add(self._of_step(), Mode.TRAIN, step)
        self._gathering.complete(before=step + 1)
        return True

    def flush(self, timeout: float = 30.0) -> None:
        """Log what is left, also of a step that is not complete; what is on a device is waited for so long."""
        self._gathering.flush(timeout)

    def close(self) -> None:
        """Log what is left, and close the logger."""
        self.flush(self.metrics_logger.left())
        self.metrics_logger.close()

    def _metrics(self, output: Any) -> MetricsT:
        loss, more = _parts(output)
        found = {"loss": loss, **more} if loss is not None else dict(more)
        self._returned |= found.keys()
        return {name: (value, self._reducers.get(name)) for name, value in found.items()}

    def _of_step(self) -> MetricsT:
        """What is known only when a step has ended: its time, and the learning rate."""
        now = self._clock()
        row: dict[str, Any] = {}
        if self._began is not None:
            row |= step_times(now - self._began, self.flops_per_step or self._flops or None)
        self._flops = 0.0
        if (rate := learning_rate(self.optimizer)) is not None:
            row["learning_rate"] = rate
        if self.train_steps == 1:
            self._report_absent(row.keys() | self._returned)
        self._began = now
        return {name: (value, None) for name, value in row.items()}

    def _report_absent(self, there: set[str]) -> None:
        """Name the documented metrics that a model or an optimizer of an unknown kind cannot have."""
        absent = []
        if self.optimizer is not None and "learning_rate" not in there:
            kind = type(self.optimizer).__name__
            absent.append(f"learning_rate: {kind} does not say it, so return it from the step function")
        if (self.model is not None or self.optimizer is not None) and "tflops_per_step" not in there:
            absent.append("tflops_per_step: the operations cannot be counted, so set trainer.flops_per_step")
        if absent and is_first(os.environ):
            said = f"not logged are {'; '.join(absent)}"
            messages.once(f"tunix absent {said}", said)

    def _operations(self, batch: Any) -> float:
        """Of one batch: counted by the compiler of a jitted step function, else 6 for each parameter and token."""
        if self._counted is None:
            self._counted = 0.0
            try:
                if batch is not None and hasattr(self._step_fn, "lower"):
                    self._counted = float(count_jax(self._step_fn, batch) or 0)
            except Exception as error:  # a step function is the user's own
                messages.once(f"tunix flops {error}", f"operations are estimated, not counted: {error!r:.200}")
        if self._counted:
            return self._counted
        if self._params is None:
            self._params = _params(self.model)
        if not self._params:
            return 0.0
        return operations.PER_PARAMETER * self._params * (operations.count_tokens(batch) or self._examples())

    def _examples(self) -> int:
        """Of one micro-batch, as far as the config knows."""
        known = (getattr(self.config, name, None) for name in BATCH_SIZES)
        return next((size for size in known if isinstance(size, int) and size > 0), 1)

    def _bring(self, gathered: Gathered) -> None:
        row: dict[str, Any] = dict(gathered.row)
        if "loss" in row and "perplexity" not in row:
            row["perplexity"] = perplexity(row["loss"])
        named = {(self.metrics_prefix, name): value for name, value in row.items()}
        self.metrics_logger.log_row(named, gathered.mode, int(gathered.step))
        self.metrics_logger.log_texts(gathered.samples, gathered.mode, int(gathered.step))


def _params(model: Any) -> int:
    try:
        return operations.count_params(model)
    except Exception as error:
        messages.once(f"tunix params {error}", f"the model's parameters cannot be counted: {error!r:.200}")
        return 0


def learning_rate(optimizer: Any, depth: int = 6) -> Any:
    """What an optimizer says of its rate: `hyperparams` in its state, at whatever depth, or torch's `param_groups`."""
    if optimizer is None or depth < 0:
        return None
    hyperparams = getattr(optimizer, "hyperparams", None)
    if isinstance(hyperparams, Mapping) and "learning_rate" in hyperparams:
        rate = hyperparams["learning_rate"]
        return getattr(rate, "value", rate)
    if isinstance(groups := getattr(optimizer, "param_groups", None), list) and groups:
        return groups[0].get("lr")
    inside = [getattr(optimizer, name, None) for name in ("opt_state", "inner_state", "inner_opt_state")]
    if isinstance(optimizer, (tuple, list)):
        inside += optimizer
    return next((rate for one in inside if (rate := learning_rate(one, depth - 1)) is not None), None)


def _parts(output: Any) -> tuple[Any, Mapping[str, Any]]:
    if isinstance(output, LossOutput) or (hasattr(output, "loss") and hasattr(output, "aux_metrics")):
        return output.loss, output.aux_metrics
    if isinstance(output, Mapping):
        return None, output
    if isinstance(output, tuple) and len(output) == 2 and isinstance(output[1], Mapping):
        return output
    return output, {}
