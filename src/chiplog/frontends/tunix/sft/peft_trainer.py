"""`PeftTrainer`: a trainer's metrics around your own step function. It does not train.

It logs metrics, times steps and combines the values of micro-batches. Your function does the training, and returns the
loss and anything else to log.
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
from chiplog.frontends.tunix.sft.step_buffer import StepBuffer
from chiplog.metrics.rl import perplexity, step_times
from chiplog.metrics.step_values.buffer import Gathered
from chiplog.metrics.step_values.reducers import MetricsT, Reducer
from chiplog.runtime.devices.flop_counter import count_jax

StepFn = Callable[[Any], Any]
BATCH_SIZES = ("train_micro_batch_size", "mini_batch_size", "batch_size")  # settings, the most specific first


class TrainingConfig(Config):
    """The settings of a trainer; those that mean nothing here are kept as attributes."""

    DEFAULTS: ClassVar[Mapping[str, object]] = {
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
    """A possible return value of a step function: a loss, plain or weighted, and other values by name."""

    loss: object
    aux_metrics: Mapping[str, object] = {}


class PeftTrainer:
    """Times training steps and logs what they return: `{prefix}/train/loss` and so on. The first step is 1."""

    def __init__(
        self,
        model: object = None,
        optimizer: object = None,
        training_config: TrainingConfig | None = None,
        *,
        metrics_logger: MetricsLogger | None = None,
        flops_per_step: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
        **others: object,
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
        self._buffer = StepBuffer(self.metrics_logger, self._log)
        self._micro = 0
        self._began: float | None = None
        self._flops = 0.0  # of the current step, unless `flops_per_step` is set
        self._counted: float | None = None  # operations of a batch, by the compiler; 0: it cannot count them
        self._params: int | None = None
        self._returned: set[str] = set()  # the names of all values that step functions have returned

    def with_step_fn(self, step_fn: StepFn, eval_fn: StepFn | None = None) -> PeftTrainer:
        """Set the functions that train and evaluate, each called with a batch; `eval_fn` defaults to `step_fn`."""
        self._step_fn, self._eval_fn = step_fn, eval_fn or step_fn
        return self

    def with_rl_metrics_to_log(self, reducers: Mapping[str, Reducer | None]) -> None:
        """Set how the values of several micro-batches become one, by name; the default is the mean."""
        self._reducers |= reducers

    def train(self, train_ds: Iterable[Any], eval_ds: Iterable[Any] | None = None) -> None:
        """Train on all batches: one step per batch, or per group of batches if gradients are accumulated."""
        if self._step_fn is None:
            raise ValueError("a trainer needs a step function: trainer.with_step_fn(step_fn)")
        every, most = self.config.eval_every_n_steps, self.config.max_steps
        batches = iter(train_ds)
        while most is None or self.train_steps < most:  # never ask for a batch that is not needed
            try:
                batch = next(batches)
            except StopIteration:
                break
            self.begin_step()
            ended = self.end_micro_step(self._step_fn(batch), batch)
            if ended and eval_ds is not None and every and self.train_steps % every == 0:
                self.evaluate(eval_ds)

    def evaluate(self, eval_ds: Iterable[Any]) -> None:
        """Evaluate all batches and log one row, at the number of steps trained so far."""
        if self._eval_fn is None:
            raise ValueError("a trainer needs an evaluation function: trainer.with_step_fn(step_fn, eval_fn)")
        for batch in eval_ds:
            self._buffer.add(self._metrics(self._eval_fn(batch)), Mode.EVAL, self.train_steps)
        self._buffer.complete(before=self.train_steps + 1)
        self._began = None  # the time of an evaluation does not count for the next step

    def begin_step(self) -> None:
        """Start the clock of a step, unless it has run since the step before."""
        if self._began is None:
            self._began = self._clock()

    def end_micro_step(self, output: object, batch: object = None) -> bool:
        """Buffer what a step function returned; return true for the last micro-batch of a step.

        The output is a loss, a mapping that contains `loss`, a pair (loss, mapping), or a `LossOutput`. The operations
        of the step are estimated from the tokens of the batch, or from the batch size in the config.
        """
        step = self.train_steps + 1
        self._buffer.add(self._metrics(output), Mode.TRAIN, step)
        self._micro += 1
        if self.flops_per_step is None:
            self._flops += self._operations(batch)
        if self._micro < (self.config.gradient_accumulation_steps or 1):
            return False
        self._micro, self.train_steps = 0, step
        self._buffer.add(self._of_step(), Mode.TRAIN, step)
        self._buffer.complete(before=step + 1)
        return True

    def flush(self, timeout: float = 30.0) -> None:
        """Log what is left, incomplete steps too; wait at most `timeout` seconds for values on a device."""
        self._buffer.flush(timeout)

    def close(self) -> None:
        """Log what is left and close the logger."""
        self.flush(self.metrics_logger.left())
        self.metrics_logger.close()

    def _metrics(self, output: object) -> MetricsT:
        loss, more = _parts(output)
        values = {"loss": loss, **more} if loss is not None else dict(more)
        self._returned |= values.keys()
        return {name: (value, self._reducers.get(name)) for name, value in values.items()}

    def _of_step(self) -> MetricsT:
        """Return what is known only at the end of a step: its time and the learning rate."""
        now = self._clock()
        row: dict[str, object] = {}
        if self._began is not None:
            row |= step_times(now - self._began, self.flops_per_step or self._flops or None)
        self._flops = 0.0
        if (rate := learning_rate(self.optimizer)) is not None:
            row["learning_rate"] = rate
        if self.train_steps == 1:
            self._report_absent(row.keys() | self._returned)
        self._began = now
        return {name: (value, None) for name, value in row.items()}

    def _report_absent(self, logged: set[str]) -> None:
        """Report the documented metrics that cannot be logged for this model and optimizer."""
        absent = []
        if self.optimizer is not None and "learning_rate" not in logged:
            kind = type(self.optimizer).__name__
            absent.append(f"learning_rate: {kind} does not have it, so return it from the step function")
        if (self.model is not None or self.optimizer is not None) and "tflops_per_step" not in logged:
            absent.append("tflops_per_step: the operations cannot be counted, so set trainer.flops_per_step")
        if absent and is_first(os.environ):
            text = f"not logged are {'; '.join(absent)}"
            messages.once(f"tunix absent {text}", text)

    def _operations(self, batch: object) -> float:
        """Return those of one batch: counted by the compiler of a jitted step function, else 6 per parameter and
        token."""
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
        """Return the size of a micro-batch, according to the config."""
        sizes = (getattr(self.config, name, None) for name in BATCH_SIZES)
        return next((size for size in sizes if isinstance(size, int) and size > 0), 1)

    def _log(self, gathered: Gathered) -> None:
        row = dict(gathered.row)
        if "loss" in row and "perplexity" not in row:
            row["perplexity"] = perplexity(row["loss"])
        named = {(self.metrics_prefix, name): value for name, value in row.items()}
        self.metrics_logger.log_row(named, gathered.mode, int(gathered.step))
        self.metrics_logger.log_texts(gathered.samples, gathered.mode, int(gathered.step))


def _params(model: object) -> int:
    try:
        return operations.count_params(model)
    except Exception as error:
        messages.once(f"tunix params {error}", f"the model's parameters cannot be counted: {error!r:.200}")
        return 0


def learning_rate(optimizer: Any, depth: int = 6) -> Any:
    """Return the learning rate from `hyperparams` in the optimizer's state, at any depth, or torch's `param_groups`."""
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


def _parts(output: Any) -> tuple[object, Mapping[str, object]]:
    """Split the output of a step function into its loss and other values by name."""
    if isinstance(output, LossOutput) or (hasattr(output, "loss") and hasattr(output, "aux_metrics")):
        return output.loss, output.aux_metrics
    if isinstance(output, Mapping):
        return None, output
    if isinstance(output, tuple) and len(output) == 2 and isinstance(output[1], Mapping):
        return output
    return output, {}
