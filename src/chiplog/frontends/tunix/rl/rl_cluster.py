"""`RLCluster`: the metrics and traces of a reinforcement learning job around your own loop. It does not train.

It has one metrics logger for all roles, a buffer for the metrics of global steps, and the tracers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, ClassVar

from chiplog.core import messages
from chiplog.frontends.tunix.config_base import Config
from chiplog.frontends.tunix.perf import trace
from chiplog.frontends.tunix.perf.config import create_perf_config, with_traces
from chiplog.frontends.tunix.perf.experimental import constants
from chiplog.frontends.tunix.perf.experimental import tracer as trace_v2
from chiplog.frontends.tunix.perf.export import GLOBAL_STEP, role_devices
from chiplog.frontends.tunix.perf.metrics import MetricsBuffer, PerfMetricsConfig, PerfMetricsOptions
from chiplog.frontends.tunix.perf.shared_tracer import Recording
from chiplog.frontends.tunix.perf.trace_export import trace_of
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger, Mode, split
from chiplog.frontends.tunix.sft.peft_trainer import PeftTrainer, TrainingConfig
from chiplog.frontends.tunix.sft.step_buffer import StepBuffer
from chiplog.metrics.step_values.buffer import Gathered
from chiplog.metrics.step_values.reducers import MetricsT


class Role(Enum):
    """The role of a mesh; the strings are also valid keys of `role_to_mesh`."""

    ACTOR = "actor"
    CRITIC = "critic"
    REFERENCE = "reference"
    REWARD = "reward"
    ROLLOUT = "rollout"


class RLTrainingConfig(TrainingConfig):
    """A `TrainingConfig` for several roles, with the options of performance tracing."""

    DEFAULTS: ClassVar[Mapping[str, object]] = {
        **TrainingConfig.DEFAULTS,
        "actor_optimizer": None,
        "critic_optimizer": None,
        "mini_batch_size": None,
        "train_micro_batch_size": None,
        "rollout_micro_batch_size": None,
        "compute_logps_micro_batch_size": None,
        "compute_logps_chunk_size": 0,
    }

    actor_optimizer: object
    critic_optimizer: object
    perf_metrics_options: PerfMetricsOptions | None

    def __init__(
        self, *, perf_metrics_options: PerfMetricsOptions | Mapping[str, object] | None = None, **settings: object
    ) -> None:
        super().__init__(perf_metrics_options=PerfMetricsOptions.of(perf_metrics_options), **settings)


class ClusterConfig(Config):
    """The meshes of the roles, and how they are trained; settings that mean nothing here are kept as attributes."""

    DEFAULTS: ClassVar[Mapping[str, object]] = {
        "role_to_mesh": None,
        "role_to_logical_axis_rule": None,
        "rollout_engine": "vanilla",
        "offload_to_cpu": False,
        "training_config": None,
        "rollout_config": None,
    }

    role_to_mesh: dict[Role | str, object]
    training_config: RLTrainingConfig
    rollout_config: object

    def __init__(
        self,
        *,
        role_to_mesh: Mapping[Any, object] | None = None,
        training_config: RLTrainingConfig | None = None,
        **settings: object,
    ) -> None:
        super().__init__(
            role_to_mesh=dict(role_to_mesh or {}), training_config=training_config or RLTrainingConfig(), **settings
        )


class RLCluster:
    """One logger, the trainers of actor and critic, and the metrics of global steps."""

    def __init__(
        self,
        *,
        actor: object = None,
        critic: object = None,
        tokenizer: object = None,
        cluster_config: ClusterConfig,
        perf_config: PerfMetricsConfig | None = None,
        **others: object,
    ) -> None:
        self.actor, self.critic, self.tokenizer = actor, critic, tokenizer
        self.cluster_config, self.others = cluster_config, others
        self.global_steps = 0
        config = cluster_config.training_config
        self.perf_config = perf_config or create_perf_config(cluster_config) or PerfMetricsConfig()
        self._exports = with_traces(self.perf_config, cluster_config)
        self._traces = trace_of(self._exports.custom_export_fn), trace_of(self._exports.custom_export_fn_v2)
        self.metrics_logger = MetricsLogger(config.metrics_logging_options)
        self.metrics_logger.current_step = lambda: self.global_steps
        self._external: Callable[[MetricsBuffer], object] | None = None
        self._buffer = StepBuffer(self.metrics_logger, self._log)
        self._complete = 0  # the global step before which no more metrics are expected
        self._recording: Recording | None = None
        self.perf, self.perf_v2 = self._tracers()
        self.actor_trainer = self._trainer("actor", actor, config.actor_optimizer)
        self.critic_trainer = None if critic is None else self._trainer("critic", critic, config.critic_optimizer)

    @contextmanager
    def global_step(self) -> Iterator[int]:
        """Run one global step: everything traced and buffered inside belongs to it, and its end exports perf metrics.

        A loop that counts `global_steps` itself calls `export_perf` at the end of each step.
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
        """Call the export functions, and buffer the metrics that they return for the current global step."""
        for tracer in (self.perf, self.perf_v2):
            if metrics := tracer.export():
                self.buffer_metrics(metrics)

    def buffer_metrics(self, metrics: MetricsT, mode: Mode | str = Mode.TRAIN) -> None:
        """Buffer metrics of the current global step: `{name: (value, reducer or None)}`.

        A step is logged when the first metrics of a later one arrive, or at the end.
        """
        self.buffer_metrics_async(metrics, mode, self.global_steps)

    def buffer_metrics_async(self, metrics: MetricsT, mode: Mode | str = Mode.TRAIN, step: int | None = None) -> None:
        """Buffer metrics of any global step, from any thread and in any order."""
        current = self.global_steps
        self._buffer.add(metrics, mode, current if step is None else step)
        if current != self._complete:  # late metrics of earlier steps stay in the buffer until the next step
            self._complete = current
            self._buffer.complete(before=current)

    def with_external_metrics_logger(self, external_metrics_logger: Callable[[MetricsBuffer], object]) -> RLCluster:
        """Call a function with the buffered metrics of every step."""
        self._external = external_metrics_logger
        return self

    def close(self) -> None:
        """Log what is left and close the logger and the trace files."""
        for trainer in (self.actor_trainer, self.critic_trainer):
            if trainer is not None:
                trainer.flush(self.metrics_logger.left())
        self._end_traces()
        self._buffer.flush(self.metrics_logger.left())
        self.metrics_logger.close()
        for trace_file in self._traces:
            if trace_file is not None:
                trace_file.close()

    def __enter__(self) -> RLCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tracers(self) -> tuple[trace.PerfTracer | trace.NoopTracer, trace_v2.PerfTracer | trace_v2.NoopTracer]:
        """Create the tracers of both versions, on one recording; without an export function they record nothing."""
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
            for trace_file in self._traces:
                if trace_file is not None and trace_file.writer is not None:
                    trace_file.writer.journal = str(run.dir)
        return first, second

    def _end_traces(self) -> None:
        """Wait for the devices, and complete the trace files."""
        if self._recording is not None:
            self._recording.wait_for_work(self.metrics_logger.left())
        first, second = self._traces
        if first is not None and isinstance(self.perf, trace.PerfTracer):
            first.flush(trace.query(self.perf))
        if second is not None and isinstance(self.perf_v2, trace_v2.PerfTracer):
            second.flush(self.perf_v2.timelines)

    def _trainer(self, role: str, model: object, optimizer: object) -> PeftTrainer:
        config = copy.copy(self.cluster_config.training_config)
        config.metrics_prefix = role
        return PeftTrainer(model, optimizer, config, metrics_logger=self.metrics_logger)

    def _log(self, gathered: Gathered) -> None:
        if gathered.row:
            row = {split(name): value for name, value in gathered.row.items()}
            self.metrics_logger.log_row(row, gathered.mode, int(gathered.step))
        self.metrics_logger.log_texts(gathered.samples, gathered.mode, int(gathered.step))
        if self._external is not None:
            try:
                self._external(MetricsBuffer(int(gathered.step), gathered.calls, gathered.mode))
            except Exception as error:
                messages.once(
                    f"tunix external {error}", f"the external metrics logger fails: {error!r}; training continues"
                )


RLEngine = RLCluster  # its name in newer versions of Tunix
