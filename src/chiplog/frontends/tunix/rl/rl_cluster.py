"""`RLCluster`: the metrics and traces of a reinforcement learning job around a loop of yours. It does not train.

It owns one metrics logger for all roles, what the calls of a global step say, and the tracers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, ClassVar

from chiplog.core import messages
from chiplog.frontends.tunix.config_base import Config
from chiplog.frontends.tunix.perf import trace, trace_files
from chiplog.frontends.tunix.perf.config import create_perf_config, with_traces
from chiplog.frontends.tunix.perf.experimental import constants
from chiplog.frontends.tunix.perf.experimental import tracer as trace_v2
from chiplog.frontends.tunix.perf.export import GLOBAL_STEP, role_devices
from chiplog.frontends.tunix.perf.metrics import MetricsBuffer, PerfMetricsConfig, PerfMetricsOptions
from chiplog.frontends.tunix.perf.recorder import Recording
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger, Mode, split
from chiplog.frontends.tunix.sft.peft_trainer import PeftTrainer, TrainingConfig
from chiplog.frontends.tunix.step_buffer import Gathering
from chiplog.metrics.step_values.buffer import Gathered
from chiplog.metrics.step_values.reducers import MetricsT


class Role(Enum):
    """Who works on a mesh; the words do as well as keys of `role_to_mesh`."""

    ACTOR = "actor"
    CRITIC = "critic"
    REFERENCE = "reference"
    REWARD = "reward"
    ROLLOUT = "rollout"


class RLTrainingConfig(TrainingConfig):
    """A `TrainingConfig` for several roles, with the options of performance tracing."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        **TrainingConfig.DEFAULTS,
        "actor_optimizer": None,
        "critic_optimizer": None,
        "mini_batch_size": None,
        "train_micro_batch_size": None,
        "rollout_micro_batch_size": None,
        "compute_logps_micro_batch_size": None,
        "compute_logps_chunk_size": 0,
    }

    actor_optimizer: Any
    critic_optimizer: Any
    perf_metrics_options: PerfMetricsOptions | None

    def __init__(
        self, *, perf_metrics_options: PerfMetricsOptions | Mapping[str, Any] | None = None, **given: Any
    ) -> None:
        super().__init__(perf_metrics_options=PerfMetricsOptions.of(perf_metrics_options), **given)


class ClusterConfig(Config):
    """Which role works where, and how it is trained; arguments that mean nothing here are kept as attributes."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "role_to_mesh": None,
        "role_to_logical_axis_rule": None,
        "rollout_engine": "vanilla",
        "offload_to_cpu": False,
        "training_config": None,
        "rollout_config": None,
    }

    role_to_mesh: dict[Any, Any]
    training_config: RLTrainingConfig
    rollout_config: Any

    def __init__(
        self,
        *,
        role_to_mesh: Mapping[Any, Any] | None = None,
        training_config: RLTrainingConfig | None = None,
        **given: Any,
    ) -> None:
        super().__init__(
            role_to_mesh=dict(role_to_mesh or {}), training_config=training_config or RLTrainingConfig(), **given
        )


class RLCluster:
    """One logger, the trainers of actor and critic, and what is said about each global step."""

    def __init__(
        self,
        *,
        actor: Any = None,
        critic: Any = None,
        tokenizer: Any = None,
        cluster_config: ClusterConfig,
        perf_config: PerfMetricsConfig | None = None,
        **others: Any,
    ) -> None:
        self.actor, self.critic, self.tokenizer = actor, critic, tokenizer
        self.cluster_config, self.others = cluster_config, others
        self.global_steps = 0
        config = cluster_config.training_config
        self.perf_config = perf_config or create_perf_config(cluster_config) or PerfMetricsConfig()
        self._exports = with_traces(self.perf_config, cluster_config)
        self.metrics_logger = MetricsLogger(config.metrics_logging_options)
        self.metrics_logger.current_step = lambda: self.global_steps
        self._external: Callable[[MetricsBuffer], Any] | None = None
        self._gathering = Gathering(self.metrics_logger, self._bring)
        self._complete = 0  # the global step before which nothing more is expected
        self._recording: Recording | None = None
        self.perf, self.perf_v2 = self._tracers()
        self.actor_trainer = self._trainer("actor", actor, config.actor_optimizer)
        self.critic_trainer = None if critic is None else self._trainer("critic", critic, config.critic_optimizer)

    @contextmanager
    def global_step(self) -> Iterator[int]:
        """One global step: what is traced and said inside belongs to it; at its end its perf metrics are made.

        A loop that counts `global_steps` itself calls `export_perf` when a step has ended.
        """
        if self.metrics_logger.run is not None:
            self.metrics_logger.run.begin_step(self.global_steps)
        elif self._recording is not None:
            self._recording.tracer.step = self.global_steps
        for trainer in (self.actor_trainer, self.critic_trainer):
            if trainer is not None:
                trainer.begin_step()
        with self.perf.span_group(GLOBAL_STEP), self.perf_v2.span(GLOBAL_STEP, tags={"step": self.global_steps}):
            yield self.global_steps
        self.export_perf()
        self.global_steps += 1

    def export_perf(self) -> None:
        """Have the export functions called, and say what they return about the current global step."""
        for tracer in (self.perf, self.perf_v2):
            if found := tracer.export():
                self.buffer_metrics(found)

    def buffer_metrics(self, metrics: MetricsT, mode: Mode | str = Mode.TRAIN) -> None:
        """Say something about the current global step: `{name: (value, reducer or None)}`.

        A step is logged when the first thing is said about a later one, or at the end.
        """
        self.buffer_metrics_async(metrics, mode, self.global_steps)

    def buffer_metrics_async(self, metrics: MetricsT, mode: Mode | str = Mode.TRAIN, step: int | None = None) -> None:
        """Say something about any global step, from any thread and in any order."""
        current = self.global_steps
        self._gathering.add(metrics, mode, current if step is None else step)
        if current != self._complete:  # what comes late for an earlier step is kept together until the next one
            self._complete = current
            self._gathering.complete(before=current)

    def with_external_metrics_logger(self, external_metrics_logger: Callable[[MetricsBuffer], Any]) -> RLCluster:
        """Have a function called with all that was said about a step, as it came."""
        self._external = external_metrics_logger
        return self

    def close(self) -> None:
        """Log what is left, once, and close the logger."""
        for trainer in (self.actor_trainer, self.critic_trainer):
            if trainer is not None:
                trainer.flush(self.metrics_logger.left())
        self._end_traces()
        self._gathering.flush(self.metrics_logger.left())
        self.metrics_logger.close()
        for export_fn in (self._exports.custom_export_fn, self._exports.custom_export_fn_v2):
            trace_files.close(export_fn)

    def __enter__(self) -> RLCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tracers(self) -> tuple[trace.PerfTracer | trace.NoopTracer, trace_v2.PerfTracer | trace_v2.NoopTracer]:
        """Both versions, on one recording; one that has no export function records nothing."""
        first: trace.PerfTracer | trace.NoopTracer = trace.NoopTracer()
        second: trace_v2.PerfTracer | trace_v2.NoopTracer = trace_v2.NoopTracer()
        config = self._exports
        if config.custom_export_fn is None and config.custom_export_fn_v2 is None:
            return first, second
        run = self.metrics_logger.run
        recording = self._recording = Recording(run)
        devices = list(dict.fromkeys(one for mesh in role_devices(self.cluster_config).values() for one in mesh))
        if config.custom_export_fn is not None:
            first = trace.PerfTracer(devices, config.custom_export_fn, recording=recording)
        if config.custom_export_fn_v2 is not None:
            second = trace_v2.PerfTracer(
                devices,
                config.custom_export_fn_v2,
                concurrent_device_spans=constants.CONCURRENT,
                recording=recording,
            )
        if run is not None:
            run.before_finish(self._end_traces)
            for export_fn in (config.custom_export_fn, config.custom_export_fn_v2):
                trace_files.name_journal(export_fn, str(run.dir))
        return first, second

    def _end_traces(self) -> None:
        """Wait for the devices, and complete the trace files."""
        if self._recording is not None:
            self._recording.settle(self.metrics_logger.left())
        if isinstance(self.perf, trace.PerfTracer):
            trace_files.flush(self._exports.custom_export_fn, trace.query(self.perf))
        if isinstance(self.perf_v2, trace_v2.PerfTracer):
            trace_files.flush(self._exports.custom_export_fn_v2, self.perf_v2.timelines)

    def _trainer(self, role: str, model: Any, optimizer: Any) -> PeftTrainer:
        config = copy.copy(self.cluster_config.training_config)
        config.metrics_prefix = role
        return PeftTrainer(model, optimizer, config, metrics_logger=self.metrics_logger)

    def _bring(self, gathered: Gathered) -> None:
        if gathered.row:
            row = {split(name): value for name, value in gathered.row.items()}
            self.metrics_logger.log_row(row, gathered.mode, int(gathered.step))
        self.metrics_logger.log_texts(gathered.samples, gathered.mode, int(gathered.step))
        if self._external is not None:
            try:
                self._external(MetricsBuffer(int(gathered.step), gathered.calls, gathered.mode))
            except Exception as error:
                messages.once(
                    f"tunix external {error}", f"the external metrics logger fails: {error!r}; training goes on"
                )


RLEngine = RLCluster  # what the original calls it by now
