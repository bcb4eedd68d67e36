"""The export of the first version: the times of a global step, by topology, and a trace file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from chiplog.core import messages
from chiplog.frontends.tunix.perf import role_times
from chiplog.frontends.tunix.perf.metrics import PerfMetricsOptions, PerfSpanQuery
from chiplog.frontends.tunix.perf.role_times import RoleTimes, Stretch
from chiplog.frontends.tunix.perf.shared_tracer import device_names
from chiplog.frontends.tunix.perf.span import Span, SpanGroup, is_span, walk
from chiplog.frontends.tunix.perf.trace_export import TraceExport
from chiplog.frontends.tunix.perf.trace_files import TraceFiles
from chiplog.metrics.step_values.reducers import MetricsT

ROLES = {"rollout": ("rollout",), "actor": ("actor",), "refer": ("refer", "reference")}
ROLLOUT, WEIGHT_SYNC, GLOBAL_STEP, ACTOR = "rollout", "weight_sync", "global_step", "actor_training"
REFER = ("refer_inference", "reference_inference")
TRAIN_STEP = ("peft_train_step", "peft_train")

ExportFn = Callable[[PerfSpanQuery], MetricsT]


class PerfMetricsExport:
    """Creates export functions."""

    @staticmethod
    def from_cluster_config(
        cluster_config: Any,
        log_rollout_time_at_micro_batch_level: bool = False,
        log_actor_train_time_at_micro_batch_level: bool = False,
        *,
        legacy_gaps: bool = False,
    ) -> ExportFn:
        """Return a function that computes the metrics of a cluster's topology and writes a trace file, unless
        `perf_metrics_options` in the training config switch the file off."""
        options = options_of(cluster_config) or PerfMetricsOptions()
        devices = role_devices(cluster_config)
        writer = TraceFiles(options.trace_dir or None, "perfetto_trace", devices)
        return PerfMetricsExport.from_role_to_devices(
            devices,
            writer if options.enable_trace_writer else None,
            log_rollout_time_at_micro_batch_level,
            log_actor_train_time_at_micro_batch_level,
            legacy_gaps=legacy_gaps,
        )

    @staticmethod
    def from_role_to_devices(
        role_to_devices: Mapping[str, object],
        trace_writer: TraceFiles | None = None,
        log_rollout_time_at_micro_batch_level: bool = False,
        log_actor_train_time_at_micro_batch_level: bool = False,
        *,
        legacy_gaps: bool = False,
    ) -> ExportFn:
        """Do the same from the devices of "rollout", "actor" and "refer"; the spans of a missing role are those of
        the main thread."""
        devices = {
            role: next((tuple(device_names(role_to_devices[name])) for name in names if name in role_to_devices), ())
            for role, names in ROLES.items()
        }
        micro_batches = log_rollout_time_at_micro_batch_level, log_actor_train_time_at_micro_batch_level
        return _Export(devices, trace_writer, micro_batches, legacy_gaps)

    create_metrics_export_fn = from_cluster_config


class _Export:
    """An export function with its state."""

    def __init__(
        self,
        devices: Mapping[str, tuple[str, ...]],
        writer: TraceFiles | None,
        micro_batches: tuple[bool, bool],  # whether to log each one's times, of the rollout and of the actor
        legacy_gaps: bool,
    ) -> None:
        self.topology = role_times.topology(devices["rollout"], devices["actor"], devices["refer"])
        self.writer, self.trace = writer, TraceExport(writer)
        self._first = {role: names[0] if names else None for role, names in devices.items()}
        self._micro_batches, self._legacy_gaps = micro_batches, legacy_gaps
        self._exported: Stretch | None = None  # the last step with metrics

    def __call__(self, query: PerfSpanQuery) -> MetricsT:
        self.trace.write(query)
        times = step_times(query, self._first)
        if times is None:
            messages.once("tunix no step", f"there is no group {GLOBAL_STEP!r} to compute metrics from")
            return {}
        if times.step == self._exported:  # the current step was not traced
            return {}
        self._exported = times.step
        row = role_times.metrics(times, self.topology, legacy_gaps=self._legacy_gaps)
        times_by_name = ("perf/rollout_time", times.rollouts), ("perf/actor_train_time", times.actors)
        for (name, stretches), is_logged in zip(times_by_name, self._micro_batches, strict=True):
            if is_logged:
                row |= {f"{name}/{at}": end - begin for at, (begin, end) in enumerate(stretches)}
        return {name: (seconds, None) for name, seconds in row.items()}


def options_of(cluster_config: Any) -> PerfMetricsOptions | None:
    """Return `perf_metrics_options` of a cluster's training config."""
    return PerfMetricsOptions.of(getattr(cluster_config.training_config, "perf_metrics_options", None))


def role_devices(cluster_config: Any) -> dict[str, tuple[str, ...]]:
    """Return the devices of every role of a cluster; roles may be strings or members of any enum."""
    meshes = getattr(cluster_config, "role_to_mesh", None) or {}
    return {str(getattr(role, "value", role)).lower(): tuple(device_names(mesh)) for role, mesh in meshes.items()}


def step_times(query: PerfSpanQuery, devices: Mapping[str, str | None]) -> RoleTimes | None:
    """Return the times of the last global step, each role's on its first device."""
    main = _last_step(query, None)
    if main is None:
        return None
    steps = {role: _last_step(query, device) or main for role, device in devices.items()}
    sync = main.find_last_inner_span(WEIGHT_SYNC)
    return RoleTimes(
        _stretch(main),
        None if sync is None else _stretch(sync),
        _spans(steps["rollout"], (ROLLOUT,)),
        _spans(steps["refer"], REFER),
        [_stretch(group) for group in _trainings(steps["actor"])],
        [stretch for group in _trainings(main) for stretch in _spans(group, TRAIN_STEP)],
    )


def _last_step(query: PerfSpanQuery, device: str | None) -> SpanGroup | None:
    if device is not None and device not in query.get_timeline_ids():
        return None
    groups = (query().main() if device is None else query().timeline(device)).last_group(GLOBAL_STEP).get()
    return groups[0] if groups and groups[0].end != inf else None


def _spans(group: SpanGroup, names: tuple[str, ...]) -> list[Stretch]:
    """Return the times of the spans with these names in a group, at any depth."""
    return [_stretch(one) for _, one in walk(group) if is_span(one) and one.name in names]


def _trainings(group: SpanGroup) -> list[SpanGroup]:
    return [one for _, one in walk(group) if isinstance(one, SpanGroup) and one.name == ACTOR]


def _stretch(span: Span) -> Stretch:
    return span.begin, span.end
