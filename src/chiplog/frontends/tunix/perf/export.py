"""The first version's export: the times of a global step by which roles share devices, and a trace file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any

from chiplog.core import messages
from chiplog.frontends.tunix.perf import topology
from chiplog.frontends.tunix.perf.metrics import PerfMetricsOptions, PerfSpanQuery
from chiplog.frontends.tunix.perf.recorder import Reading, checked
from chiplog.frontends.tunix.perf.span import Span, SpanGroup, is_span
from chiplog.frontends.tunix.perf.topology import RoleTimes, Stretch
from chiplog.frontends.tunix.perf.trace_files import TraceWriter
from chiplog.metrics.step_values.reducers import MetricsT

ROLES = {"rollout": ("rollout",), "actor": ("actor",), "refer": ("refer", "reference")}
ROLLOUT, WEIGHT_SYNC, GLOBAL_STEP, ACTOR = "rollout", "weight_sync", "global_step", "actor_training"
REFER = ("refer_inference", "reference_inference")
TRAIN_STEP = ("peft_train_step", "peft_train")

ExportFn = Callable[[PerfSpanQuery], MetricsT]


class PerfMetricsExport:
    """Makes export functions."""

    @staticmethod
    def from_cluster_config(
        cluster_config: Any,
        log_rollout_time_at_micro_batch_level: bool = False,
        log_actor_train_time_at_micro_batch_level: bool = False,
        *,
        legacy_gaps: bool = False,
    ) -> ExportFn:
        """The metrics of a cluster's topology, and a trace file, unless `perf_metrics_options` in its training config
        say that there is to be none."""
        given = PerfMetricsOptions.of(getattr(cluster_config.training_config, "perf_metrics_options", None))
        options = given or PerfMetricsOptions()
        writer = None
        devices = role_devices(cluster_config)
        if options.enable_trace_writer:
            writer = TraceWriter(options.trace_dir or None, "perfetto_trace", devices)
        return PerfMetricsExport.from_role_to_devices(
            devices,
            writer,
            log_rollout_time_at_micro_batch_level,
            log_actor_train_time_at_micro_batch_level,
            legacy_gaps=legacy_gaps,
        )

    @staticmethod
    def from_role_to_devices(
        role_to_devices: Mapping[str, Any],
        trace_writer: TraceWriter | None = None,
        log_rollout_time_at_micro_batch_level: bool = False,
        log_actor_train_time_at_micro_batch_level: bool = False,
        *,
        legacy_gaps: bool = False,
    ) -> ExportFn:
        """As `from_cluster_config`, by the devices of "rollout", "actor" and "refer"; one that is missing is looked for
        on the main thread."""
        devices = {role: _devices(role_to_devices, names) for role, names in ROLES.items()}
        micro = {
            "perf/rollout_time": log_rollout_time_at_micro_batch_level,
            "perf/actor_train_time": log_actor_train_time_at_micro_batch_level,
        }
        return _Export(devices, trace_writer, micro, legacy_gaps)

    create_metrics_export_fn = from_cluster_config


class _Export:
    """An export function, with what it remembers."""

    def __init__(
        self,
        devices: Mapping[str, tuple[str, ...]],
        writer: TraceWriter | None,
        micro: Mapping[str, bool],
        legacy_gaps: bool,
    ) -> None:
        self.topology = topology.topology(devices["rollout"], devices["actor"], devices["refer"])
        self.writer = writer
        self._first = {role: one[0] if one else None for role, one in devices.items()}
        self._micro, self._legacy_gaps = micro, legacy_gaps
        self._reading = Reading()
        self._told: Stretch | None = None  # the step that metrics were made of

    def __call__(self, query: PerfSpanQuery) -> MetricsT:
        self.write(query)
        times = step_times(query, self._first)
        if times is None:
            messages.once("tunix no step", f"there is no group {GLOBAL_STEP!r} to make metrics of")
            return {}
        if times.step == self._told:  # this one was not traced
            return {}
        self._told = times.step
        found = topology.metrics(times, self.topology, legacy_gaps=self._legacy_gaps)
        for name, stretches in zip(self._micro, (times.rollouts, times.actors), strict=True):
            if self._micro[name]:
                found |= {f"{name}/{at}": end - begin for at, (begin, end) in enumerate(stretches)}
        return {name: (seconds, None) for name, seconds in found.items()}

    def flush(self, query: PerfSpanQuery) -> None:
        """Write what has come since the last call, and have all of it in the file."""
        self.write(query)
        if self.writer is not None:
            self.writer.flush()

    def write(self, query: PerfSpanQuery) -> None:
        """Have what has come since the last call written."""
        if self.writer is not None:
            self.writer.write(self._reading.new(query.arrivals))


def role_devices(cluster_config: Any) -> dict[str, tuple[str, ...]]:
    """The devices of every role, as a cluster's config has them; roles may be words or members of any enum."""
    meshes = getattr(cluster_config, "role_to_mesh", None) or {}
    return {str(getattr(role, "value", role)).lower(): tuple(checked(mesh)) for role, mesh in meshes.items()}


def step_times(query: PerfSpanQuery, devices: Mapping[str, str | None]) -> RoleTimes | None:
    """What happened in the last global step, each role on its first device."""
    main = _last_step(query, None)
    if main is None:
        return None
    on = {role: _last_step(query, device) or main for role, device in devices.items()}
    sync = main.find_last_inner_span(WEIGHT_SYNC)
    return RoleTimes(
        _stretch(main),
        None if sync is None else _stretch(sync),
        [_stretch(span) for span in _inside(on["rollout"]) if span.name == ROLLOUT],
        [_stretch(span) for span in _inside(on["refer"]) if span.name in REFER],
        [_stretch(group) for group in _groups(on["actor"]) if group.name == ACTOR],
        [
            _stretch(span)
            for group in _groups(main)
            if group.name == ACTOR
            for span in _inside(group)
            if span.name in TRAIN_STEP
        ],
    )


def _last_step(query: PerfSpanQuery, device: str | None) -> SpanGroup | None:
    if device is not None and device not in query.get_timeline_ids():
        return None
    found = (query().main() if device is None else query().timeline(device)).last_group(GLOBAL_STEP).get()
    return found[0] if found and found[0].end != inf else None


def _inside(group: SpanGroup) -> Iterator[Span]:
    """The spans in a group, at any depth, in order."""
    for one in group.inner:
        if is_span(one):
            yield one
        if isinstance(one, SpanGroup):
            yield from _inside(one)


def _groups(group: SpanGroup) -> Iterator[SpanGroup]:
    for one in group.inner:
        if isinstance(one, SpanGroup):
            yield one
            yield from _groups(one)


def _stretch(span: Span) -> Stretch:
    return span.begin, span.end


def _devices(given: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    return next((tuple(checked(given[name])) for name in names if name in given), ())
